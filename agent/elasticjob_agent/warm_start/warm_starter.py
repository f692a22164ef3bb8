"""Start the workers of a node warm where that is safe, and cold where it is not.

The first workers are exec'ed, and one of them records its imports. When its imports have ended, a zygote repeats them,
and forks a worker ahead for each local rank. The next round takes those. A round never waits for a zygote.

With the recording of another node, the very first workers wait for a zygote instead. Its imports take as long as their
own would, but they happen once.

Each cold start has a reason. It is logged once, after `not warm: `.
"""

import asyncio
import functools
import logging
import time
from collections.abc import Collection, Coroutine, Sequence

from elasticjob_agent.host.oom import OomCounter
from elasticjob_agent.supervisor import Child, Command, Exit, StartError, Supervisor, SupervisorError
from elasticjob_agent.supervisor.preforked import PreforkedWorker, describe_loss, describe_losses
from elasticjob_agent.warm_start import cold_reasons, eligibility
from elasticjob_agent.warm_start.cold_reasons import ColdReasons
from elasticjob_agent.warm_start.early_ends import MAX_EARLY_ENDS, EarlyEnds, WorkerEnd
from elasticjob_agent.warm_start.head_start import HeadStart
from elasticjob_agent.warm_start.injection import Write, record_imports
from elasticjob_agent.warm_start.later_builds import LaterBuilder
from elasticjob_agent.warm_start.limits import Limits
from elasticjob_agent.warm_start.memory_monitor import MemoryMonitor
from elasticjob_agent.warm_start.node_recording import NodeRecording
from elasticjob_agent.warm_start.node_zygote import NodeZygote
from elasticjob_agent.warm_start.profiles import Profiles
from elasticjob_agent.warm_start.program import find_program
from elasticjob_agent.warm_start.stack_injection import with_stacks
from elasticjob_agent.warm_start.zygote_builder import MAX_WAIT_S, NotEligibleError, ReadyZygote, ZygoteBuilder

log = logging.getLogger(__name__)

_REWRITE_S = (5.0, 10.0, 20.0, 40.0, 80.0)
"""Pauses before further attempts to write a profile: another node may come first, or etcd may be away."""
_NOT_USED = "the recording of another node was not used"
_NOT_BUILT = "the imports are not repeated yet"


class WarmStart:
    """Starts the workers of one node."""

    def __init__(
        self,
        supervisor: Supervisor,
        *,
        varying: Collection[str],
        output: Write | None = None,
        limits: Limits | None = None,
        memory: MemoryMonitor | None = None,
        profiles: Profiles | None = None,
    ) -> None:
        """Start workers with this supervisor.

        Args:
            supervisor: starts the processes.
            varying: the environment variables that differ by rank or round.
            output: gets what the imports of a zygote print, in lines; by default the log does.
            limits: times and counts.
            memory: watches the memory of this container.
            profiles: has the recordings of other nodes; by default there are none.
        """
        self._supervisor = supervisor
        self._limits = limits or Limits()
        self._memory = memory or MemoryMonitor(OomCounter(None))
        self._builder = ZygoteBuilder(
            supervisor,
            varying=varying,
            output=output or _log_output,
            limits=self._limits,
            memory=self._memory,
        )
        self._reasons = ColdReasons()
        self._zygote = NodeZygote(
            supervisor,
            reasons=self._reasons,
            limits=self._limits,
            memory=self._memory,
            on_task_end=self._task_ended,
        )
        self._recording: NodeRecording | None = None
        self._task: asyncio.Task[None] | None = None
        self._growth: asyncio.Task[None] | None = None
        """Waits for imports that come later, and for the profile of another node."""
        self._early_ends = EarlyEnds()
        self._head_start = HeadStart(self._limits.head_start_s)
        self._profiles = profiles
        self._is_first = True
        self._hurry = asyncio.Event()
        self._started_s = 0.0

    @property
    def reason(self) -> str:
        """Return why the last workers were not started warm; empty if they were."""
        return self._reasons.last

    async def spawn(self, commands: Sequence[Command]) -> list[Child]:
        """Start all of these; the arguments and errors are those of `Supervisor.spawn`."""
        if self._is_first:
            self._is_first = False
            await self._wait_for_first_zygote(commands)
        taken, reason = await self._take(commands)
        recording = None if taken else self._begin_recording(commands)
        if not taken:
            reason = self._reasons.refusal or reason
        changed = list(commands) if taken else list(map(with_stacks, commands))
        if recording:
            changed = list(map(record_imports, commands, recording.write_fds))
        try:
            children = await self._start(changed, taken)
        finally:
            if recording:
                recording.workers_started()
        self._started(children, reason=reason or describe_losses([each.name for each in commands], taken))
        if any(worker.is_hanging for worker in taken):
            self._reasons.refuse("a worker that was forked ahead hung")
        self._prepare_next(commands, children[0], recording)
        return children

    async def _start(self, commands: Sequence[Command], taken: Sequence[PreforkedWorker]) -> list[Child]:
        """Start these workers: all warm, or all cold."""
        if not taken:
            return await self._supervisor.spawn(commands)
        environment = commands[0].env
        after_first = functools.partial(self._head_start.after_first, environment)
        try:
            await self._head_start.before_first(environment)
            return await self._supervisor.spawn(commands, taken, change_replaced=with_stacks, after_first=after_first)
        except BaseException:
            # Those without a command wait still, and belong to no zygote any more.
            await asyncio.shield(self._supervisor.discard(taken))
            raise

    def stop_waiting(self) -> None:
        """Let a start that waits for a zygote go on without it: its workers are to be stopped."""
        self._hurry.set()

    def worker_failed(self, end: Exit, *, has_progress: bool) -> None:
        """Record that a worker of the last start has failed by itself."""
        lived_s = end.at_s - self._started_s
        self._early_ends.record(WorkerEnd(code=end.code, lived_s=lived_s, has_progress=has_progress))
        if self._early_ends.are_too_many:
            self._reasons.refuse(f"{MAX_EARLY_ENDS} warm starts in a row ended early")

    async def close(self) -> None:
        """End the zygote and what it has forked. May be called again."""
        # A start that is still under way begins no build.
        self._reasons.refusal = self._reasons.refusal or "the agent ends"
        self._hurry.set()
        await self._end(self._task)
        if self._recording is not None:
            self._recording.close()
        self._builder.close()

    # --- a round -----------------------------------------------------------------------------------------------

    async def _take(self, commands: Sequence[Command]) -> tuple[list[PreforkedWorker], str]:
        """Return a worker for each command, or none and the reason for a cold start."""
        ready = self._zygote.ready
        if self._reasons.refusal or ready is None:
            return [], self._reasons.refusal or self._reasons.no_zygote
        if reason := await self._find_change(ready):
            return [], reason
        for command in commands:
            if reason := eligibility.refuse_conditions(ready.conditions, self._builder.conditions(command)):
                return [], reason
        if len(ready.alive_workers) < len(commands) and self._zygote.is_building and self._task is not None:
            await asyncio.wait([self._task], timeout=self._limits.round_s)
        alive = ready.alive_workers
        if len(alive) < len(commands):
            if ready.zygote.child.exit.done() and not self._zygote.is_building:
                await self._zygote.discard()  # so that one of these workers records its imports
            losses = (describe_loss(worker) for worker in ready.workers if worker.loss)
            return [], next(losses, ready.fork_failure or "not all workers are forked yet")
        taken = alive[: len(commands)]
        ready.workers = [worker for worker in alive if worker not in taken]
        return taken, ""

    async def _find_change(self, ready: ReadyZygote) -> str:
        """Return a reason against this zygote, which is discarded then: the script does more than its imports knew."""
        recording = self._recording
        if recording is not None and (change := ready.find_change(recording)):
            reason = f"a worker has set or imported {change} since the imports were repeated"
        else:
            known = {*ready.profile.known_variables, *(recording.known_variables if recording else ())}
            unknown = self._builder.unknown_variables(known)
            if not unknown:
                return ""
            reason = f"a worker sets {unknown[0]}, which no recorded worker has set, and an import may have read it"
            if not self._zygote.is_building:
                self._builder.expect_variables(unknown)
        if not self._zygote.is_building:
            await self._zygote.discard()
        return reason

    def _started(self, children: Sequence[Child], *, reason: str) -> None:
        """Record a start, and the reason of a cold one."""
        self._reasons.started(reason)
        self._started_s = time.monotonic()
        is_warm = any(child.is_warm for child in children)
        self._early_ends.start(is_warm=is_warm)
        if is_warm:
            self._builder.note_warm_start()

    # --- between rounds ----------------------------------------------------------------------------------------

    def _begin_recording(self, commands: Sequence[Command]) -> NodeRecording | None:
        """Return a recording for these workers; None if no zygote will be built from it."""
        if self._reasons.refusal or self._zygote.ready is not None or self._zygote.is_building:
            return None
        command = commands[0]
        program = find_program(command.argv, command.env, command.cwd)
        argv = command.argv
        refusal = eligibility.refuse_program(program) or eligibility.refuse_options(program, argv)
        if refusal := refusal or eligibility.refuse_length(argv):
            self._reasons.refuse(refusal)
            return None
        if self._task is not None:
            self._task.cancel()  # first: the end of its recording would begin its build
        if self._recording is not None:
            self._recording.close()
        try:
            self._recording = NodeRecording(len(commands))
        except OSError:  # no descriptor is left
            self._recording = None
        return self._recording

    def _prepare_next(self, commands: Sequence[Command], child: Child, recording: NodeRecording | None) -> None:
        """Build a zygote after these workers have imported their modules, or fork the next workers."""
        if self._reasons.refusal:
            if self._zygote.ready is not None:  # once: a second task would cancel the first one, which ends it
                self._begin(self._end(self._task))
        elif self._zygote.is_building:  # a request to a zygote is never left without reading its answer
            return
        elif recording is not None:
            self._reasons.no_zygote = _NOT_BUILT
            self._begin(self._build(commands, child, recording))
        elif self._zygote.ready is not None:
            self._begin(self._fork_next(commands, self._zygote.ready))

    def _begin(self, work: Coroutine[None, None, None]) -> None:
        """Let this be the only task. An earlier one, which only waits for the end of the imports, is cancelled."""
        if self._task is not None:
            self._task.cancel()
        self._task = asyncio.create_task(work)
        self._task.add_done_callback(self._task_ended)

    async def _build(self, commands: Sequence[Command], child: Child, recording: NodeRecording) -> None:
        await recording.wait_complete(greeting_s=self._limits.greeting_s, quiet_s=self._limits.quiet_s)
        if recording.has_ended and await self._find_cut_off(child):
            return
        try:
            with self._zygote.building():
                self._builder.check(commands[0], child.pid, recording)
                self._zygote.ready = ready = await self._builder.build(commands[0], recording)
        except NotEligibleError as error:
            if recording.has_ended and recording.greeting is None:
                self._reasons.no_zygote = str(error)  # a worker that ended at once is no reason against the next
            else:
                self._reasons.refuse(str(error))
            return
        except (SupervisorError, StartError, OSError) as error:
            self._reasons.no_zygote = f"the zygote could not be built: {error}"
            return
        await self._fork_next(commands, ready)
        later = LaterBuilder(
            self._zygote,
            self._builder,
            limits=self._limits,
            fork_next=functools.partial(self._fork_next, commands),
            write_profile=functools.partial(self._write_profile, commands),
        )
        await self._write_profile(commands, ready)
        if self._growth is not None:
            self._growth.cancel()  # its recording has ended
        self._growth = asyncio.create_task(self._grow(commands, recording, ready, later))
        self._growth.add_done_callback(self._task_ended)

    async def _grow(
        self, commands: Sequence[Command], recording: NodeRecording, ready: ReadyZygote, later: LaterBuilder
    ) -> None:
        """Do what comes later: add to the profile of another node, and build larger zygotes."""
        await asyncio.gather(self._write_when_possible(commands, ready), later.run(commands[0], recording, ready))

    async def _write_when_possible(self, commands: Sequence[Command], ready: ReadyZygote) -> None:
        for pause_s in _REWRITE_S:
            if self._profiles is None or not self._profiles.is_unwritten or self._zygote.ready is not ready:
                return
            await asyncio.sleep(pause_s)
            await self._write_profile(commands, ready)

    async def _find_cut_off(self, child: Child) -> bool:
        """Return whether this worker, whose recording has ended early, may have had more imports to do."""
        await asyncio.wait([child.exit], timeout=self._limits.quiet_s)
        return child.ended and child.exit.result().stopped_by_us

    async def _write_profile(self, commands: Sequence[Command], ready: ReadyZygote) -> None:
        if self._profiles is not None:
            await self._profiles.write(commands[0], ready.profile)

    async def _fork_next(self, commands: Sequence[Command], ready: ReadyZygote) -> None:
        """Fork the workers of the next round; report once how much memory the zygote and these take."""
        is_outdated = await self._zygote.refill(ready, len(commands))
        if is_outdated and (again := await self._build_again(commands, ready)) is not None:
            ready = again
            await self._zygote.refill(ready, len(commands))
            await self._write_profile(commands, ready)
        await self._zygote.report_memory(ready)
        if self._profiles is not None and self._profiles.is_unwritten:  # etcd was away when the zygote was built
            await self._write_profile(commands, ready)

    async def _build_again(self, commands: Sequence[Command], earlier: ReadyZygote) -> ReadyZygote | None:
        """Repeat the imports of a zygote whose files have changed; None if that fails, and the next round records."""
        try:
            with self._zygote.building():
                self._zygote.ready = ready = await self._builder.build(commands[0], earlier.profile)
                ready.judged = earlier.judged
        except (NotEligibleError, SupervisorError, StartError, OSError) as error:
            self._reasons.no_zygote = f"the zygote could not be built: {error}"
            return None
        else:
            return ready

    async def _wait_for_first_zygote(self, commands: Sequence[Command]) -> None:
        """Build a zygote from what another node has recorded, if there is such a recording."""
        if self._profiles is None or self._reasons.refusal:
            return
        self._begin(self._build_first(self._profiles, commands))
        hurry = asyncio.create_task(self._hurry.wait())
        assert self._task is not None
        # Each step of the build has its limit, but a fork server that hangs meanwhile ends none of them.
        longest_s = MAX_WAIT_S + self._limits.fork_s
        await asyncio.wait({self._task, hurry}, timeout=longest_s, return_when=asyncio.FIRST_COMPLETED)
        hurry.cancel()
        if not self._task.done():
            await self._end(self._task)
            too_long = f"{_NOT_USED}: the first workers have waited {longest_s:.0f} s for a zygote"
            self._reasons.no_zygote = cold_reasons.FIRST if self._hurry.is_set() else too_long

    async def _build_first(self, profiles: Profiles, commands: Sequence[Command]) -> None:
        profile = await profiles.read(commands)
        if profile is None:
            return
        try:
            with self._zygote.building():
                self._builder.check_profile(commands[0], profile)
                self._zygote.ready = ready = await self._builder.build(commands[0], profile, expected=profile)
        except (NotEligibleError, SupervisorError, StartError, OSError) as error:
            # These workers record their own imports, and what is wrong with those is a reason for later.
            self._reasons.no_zygote = f"{_NOT_USED}: {error}"
            return
        await self._zygote.refill(ready, len(commands))  # its memory is measured once these workers have started

    def _task_ended(self, task: "asyncio.Task[None]") -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("the warm start failed", exc_info=error)
            self._reasons.refuse(f"{type(error).__name__}: {error}")

    async def _end(self, task: "asyncio.Task[None] | None") -> None:
        """End this task, and then the zygote."""
        for each in filter(None, (task, self._growth)):
            each.cancel()
            await asyncio.wait([each])
        await self._zygote.discard()


def _log_output(lines: bytes) -> None:
    log.info("%s", lines.decode(errors="replace").rstrip())
