"""One pod on this machine: its containers as processes, from Pending to its end, and its deletion.

Only this module changes the states of the containers, and it reports each change as a whole status. A container is
its main process: when that ends, the processes that it left behind are killed. Containers are never restarted
(restartPolicy Never). Images, probes and hooks are ignored.

A deletion may come at any time, also between two spawns. `stop` signals all processes, and stops a process that is
spawned later at once. `run` always returns, and then no process of the pod is left.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from elasticjob_agent.supervisor import Child, Command, LineSink, StartError, Supervisor
from elasticjob_cli.local.containers import ContainerPlan, PodPlan, make_files, remove_memory
from elasticjob_cli.local.pod_status import ContainerEnd, ContainerState, LocalPodState, pod_status, termination_message

Report = Callable[[dict[str, Any]], Awaitable[None]]
Write = Callable[[bytes], None]


class PodRunner:
    """One pod; call `run` once, and `stop` at any time and any number of times."""

    def __init__(
        self,
        plan: PodPlan,
        *,
        supervisor: Supervisor,
        ips: tuple[str, str],
        now: Callable[[], str],
        report: Report,
        write: Write,
    ) -> None:
        """Create the states; start nothing yet.

        Args:
            plan: the containers to start.
            supervisor: starts and ends the processes.
            ips: the pod's address and the host's.
            now: returns the time as RFC 3339.
            report: takes the whole status after each change.
            write: takes whole lines of the containers' output; must not block.
        """
        self._plan = plan
        self._supervisor = supervisor
        self._ips = ips
        self._now = now
        self._report = report
        self._write = write
        self._start_time = now()
        self._init = [ContainerState(c.name, c.image) for c in plan.init]
        self._containers = [ContainerState(c.name, c.image) for c in plan.containers]
        self._failure: tuple[str, str] | None = None
        self._children: list[Child] = []
        self._stop_by_s: float | None = None

    @property
    def pids(self) -> tuple[int, ...]:
        """The main processes that are still running."""
        return tuple(child.pid for child in self._children if not child.ended)

    async def run(self) -> None:
        """Start all containers, wait for their end, and report each change."""
        try:
            await self._run()
        finally:
            await asyncio.to_thread(remove_memory, self._plan)

    async def _run(self) -> None:
        try:
            make_files(self._plan)
        except OSError as error:
            await self._fail("FailedMount", f"a folder of the pod cannot be created: {error}")
            return
        await self._report_status()
        for state, plan in zip(self._init, self._plan.init, strict=True):
            await self._run_container(state, plan)
            if state.ended is None or state.ended.code != 0:
                await self._report_status()
                return
        containers = zip(self._containers, self._plan.containers, strict=True)
        async with asyncio.TaskGroup() as group:
            for state, plan in containers:
                group.create_task(self._run_container(state, plan))

    async def stop(self, grace_s: float) -> None:
        """Send SIGTERM to each container, and SIGKILL to the rest after the grace; a later call may shorten it."""
        stop_by_s = asyncio.get_running_loop().time() + grace_s
        self._stop_by_s = stop_by_s if self._stop_by_s is None else min(stop_by_s, self._stop_by_s)
        await self._signal()

    def _is_stopping(self) -> bool:
        return self._stop_by_s is not None

    async def _signal(self) -> None:
        left_s = (self._stop_by_s or 0.0) - asyncio.get_running_loop().time()
        await self._supervisor.stop(list(self._children), grace_s=max(0.0, left_s))

    async def _run_container(self, state: ContainerState, plan: ContainerPlan) -> None:
        if self._is_stopping():
            state.ended = self._end(plan, 137, reason="Deleted", message="the pod was deleted before it started")
            await self._report_status()
            return
        try:
            [child] = await self._supervisor.spawn([self._command(plan)])
        except StartError as error:
            state.ended = self._end(plan, error.exit_code, reason="StartError", message=str(error))
            await self._report_status()
            return
        self._children.append(child)
        if self._is_stopping():  # stop() came during the start, and did not signal this process
            await self._signal()
        state.started_at = self._now()
        await self._report_status()
        await self._wait(child, state, plan)

    async def _wait(self, child: Child, state: ContainerState, plan: ContainerPlan) -> None:
        exit_ = await child.exit
        await self._supervisor.sweep([child])
        await child.drained  # its last lines come before the line about its end
        self._children.remove(child)
        state.ended = self._end(plan, exit_.code)
        await self._report_status()

    def _command(self, plan: ContainerPlan) -> Command:
        return Command(
            name=f"container {plan.name}",
            argv=plan.argv,
            env=plan.env,
            cwd=str(plan.cwd),
            stdout=LineSink(plan.stdout, b"", self._write),
            stderr=LineSink(plan.stderr, b"", self._write),
        )

    def _end(self, plan: ContainerPlan, code: int, *, reason: str = "", message: str = "") -> ContainerEnd:
        output: Sequence[Any] = (plan.stderr, plan.stdout) if plan.logs_on_error and code != 0 else ()
        text = message or termination_message(plan.termination_log, *output)
        return ContainerEnd(code=code, at=self._now(), message=text, reason=reason)

    async def _fail(self, reason: str, message: str) -> None:
        self._failure = (reason, message)
        await self._report_status()

    async def _report_status(self) -> None:
        pod_ip, host_ip = self._ips
        state = LocalPodState(
            start_time=self._start_time,
            pod_ip=pod_ip,
            host_ip=host_ip,
            init=self._init,
            containers=self._containers,
            failure=self._failure,
        )
        await self._report(pod_status(state, self._now()))
