"""One node's life in a job: enter, follow the world, drive the workers, leave. It carries out `steps`.

It watches `P/c/ctl/` (world and closer, in one watch), keeps one lease alive, and asks `steps.next_step` after
every change of anything. One step at a time, so no two transactions of one node race. Trouble with etcd never
stops a healthy worker: steps wait, workers go on.
"""

import asyncio
import logging
import math
from collections.abc import Callable

from elasticjob_agent.rendezvous.leader.election import Election, closer_in
from elasticjob_agent.rendezvous.member.executor import Acts, Result, Scene
from elasticjob_agent.rendezvous.member.join import Profile
from elasticjob_agent.rendezvous.member.leader_monitor import CloserMind
from elasticjob_agent.rendezvous.member.link_listener import LinkListener
from elasticjob_agent.rendezvous.member.session import PASSING, RETRY_S, SAY_AGAIN_S, Entrance, Stay, returning
from elasticjob_agent.rendezvous.protocol import mass_loss_grace, transactions
from elasticjob_agent.rendezvous.protocol.interfaces import Outcome, WorkersPort
from elasticjob_agent.rendezvous.protocol.last_known_state import Recall
from elasticjob_agent.rendezvous.protocol.member_plan import Do, Situation, Step, Workers, next_step
from elasticjob_agent.rendezvous.protocol.transactions import FailureIn
from elasticjob_agent.tracing import Trace
from elasticjob_api.errors import RecordError
from elasticjob_api.exit_codes import ExitCode, from_worker
from elasticjob_api.link_secret import decode_link_key
from elasticjob_api.records import Slots
from elasticjob_api.rendezvous_state import Cause, World
from elasticjob_etcd.interface import Delete, Etcd, Txn, unchanged
from elasticjob_etcd.mirror import Mirror

log = logging.getLogger(__name__)

_KEY_IS_GONE = "the own key is gone"


class RendezvousMember:
    """One node of a job; `run` returns when its part has ended."""

    def __init__(
        self,
        *,
        etcd: Etcd,
        profile: Profile,
        workers: WorkersPort,
        clock: Callable[[], float],
        draw: Callable[[], str],
        trace: Trace,
        join_timeout_s: float = 600.0,
    ) -> None:
        """`draw` gives eight random hex digits, `clock` monotonic seconds."""
        self._etcd = etcd
        self._profile = profile
        self._keys = profile.keys
        self._workers = workers
        self._draw = draw
        self._trace = trace
        self._join_timeout_s = join_timeout_s
        self._wake = asyncio.Event()
        self._election = Election(etcd=etcd, clock=clock, nonce=draw, trace=trace, wake=self._wake.set)
        self._acts = Acts(etcd=etcd, workers=workers, draw=draw, trace=trace, election=self._election)
        self._closer_mind = CloserMind(etcd=etcd, draw=draw, trace=trace)
        self._leave_requested = False
        self._clock = clock
        self._recall = Recall()
        self._stale_revision: int | None = None
        self._wipes = 0
        self._wiped = False
        self._quiet_until_s = 0.0
        self._came_back_s = -math.inf
        self._election.shaken_until = self._shaken_until
        self.stay: Stay | None = None
        self.on_world: Callable[[World], None] = lambda _world: None
        workers.on_change = self._wake.set

    def request_leave(self) -> None:
        """SIGTERM: leave in order."""
        self._leave_requested = True
        self._wake.set()

    def lost(self) -> None:
        """A report was refused: the own key is gone."""
        if self.stay is not None:
            self.stay.keeper.mark_lost(_KEY_IS_GONE)

    async def run(self) -> Outcome:
        """Take part until the job ends or this node leaves; raises RendezvousError, EtcdError."""
        self._listener = LinkListener(self._profile.address, draw=self._draw, on_end=self._closer_mind.link_ended)
        try:
            await self._open_link()
            async with Mirror(self._etcd, self._keys.ctl, seed_later=True, on_change=self._wake.set) as mirror:
                self._mirror = mirror
                stay = await self._enter()
                if stay is None:
                    return Outcome(ExitCode.LEFT, "left before joining")
                mirror.seed(stay.ctl, empty_is_reset=stay.wanted.is_operated)
                try:
                    return await self._live()
                finally:
                    await self._end()
        finally:
            # The last of all: its end shows the closer that this process is gone.
            await self._listener.close()

    async def _open_link(self) -> None:
        await self._listener.open()
        address = self._listener.address
        self._election.link = "" if address is None else str(address)
        self._entrance = Entrance(
            etcd=self._etcd,
            profile=self._profile,
            clock=self._clock,
            draw=self._draw,
            link_port=0 if address is None else address.port,
        )

    async def _end(self) -> None:
        await self._closer_mind.close()
        await self._stop_workers(soon=True)
        await self._election.close()
        if self.stay is not None:
            await self.stay.close()

    async def _enter(self, profile: Callable[[], Profile] | None = None) -> Stay | None:
        stay = await self._entrance.enter(
            master_port=self._workers.renew_master_port(),
            timeout_s=self._join_timeout_s,
            give_up=lambda: self._leave_requested,
            watching=self._mirror.wait_watching,
            profile=profile,
            is_over=None if profile is None else lambda: self._recall.deleted,
        )
        self.stay = stay
        if stay is not None:
            self._listener.answer_as(self._keys.prefix, stay.me.member)
            stay.keeper.on_lost = self._wake.set
            self._trace.point("joined", 0)
            log.info("joined as slot %d, incarnation %s", stay.me.member.slot, stay.me.member.incarnation)
        return stay

    # -- the loop --------------------------------------------------------------------------------

    async def _live(self) -> Outcome:
        while self.stay is not None:
            self._wake.clear()
            if self._mirror.failure is not None:
                raise self._mirror.failure
            stay = self.stay
            self._note_wipe(stay)
            self._look()
            self._follow_news(stay)
            if stay.keeper.lost.is_set() and not self._recall.ended:
                if not await self._recover(stay):
                    return Outcome(ExitCode.LEFT, "left while etcd did not answer")
                continue
            closer = self._mirror.items.get(self._keys.closer)
            lease, key = closer.lease if closer else 0, self._listener.key
            # After the end all go, the closer too: no member watches it any more.
            minded = None if self._recall.ended else closer_in(closer)
            self._closer_mind.update(stay.me, minded, lease, key)
            await self._election.update(stay.me, closer, may_stand=not self._leave_requested)
            step = next_step(self._situation(stay))
            if step.do is Do.EXIT:
                return await self._exit(stay, step)
            if step.do is Do.DEPART:
                return await self._depart(stay)
            if step.do is Do.WAIT or self._recall.revision == self._stale_revision:
                await self._wake.wait()
                continue
            await self._perform(stay, step)
        return Outcome(ExitCode.LEFT, "left")

    def _look(self) -> None:
        """Take in the newest world of the watch; an unreadable one is as if unchanged."""
        try:
            is_news = self._recall.look(self._mirror.items.get(self._keys.world))
        except RecordError as error:
            log.warning("ignored %s: %s", self._keys.world, error)
            return
        if is_news and (world := self._recall.world) is not None:
            self._election.note(world)
            self._trace.point(f"saw {world.state.value}", world.round)
            self.on_world(world)

    def _follow_news(self, stay: Stay) -> None:
        """Take in what the closer has pushed beside the world; what cannot be read is as if unchanged."""
        try:
            stay.follow(self._mirror.items.get(self._keys.terms))
            if (key := self._mirror.items.get(self._keys.link)) is not None:
                self._listener.key = decode_link_key(key.value)
        except RecordError as error:
            log.warning("ignored a record under %s: %s", self._keys.ctl, error)

    def _note_wipe(self, stay: Stay) -> None:
        """After a wipe everybody first comes back: nothing is opened or closed for one lease period."""
        if self._mirror.store_reset == self._wipes:
            return
        self._wipes = self._mirror.store_reset
        self._recall.wiped()
        self._stale_revision = None
        self._quiet_until_s = self._election.quiet_until_s = self._clock() + stay.keep_alive_s
        asyncio.get_running_loop().call_later(stay.keep_alive_s, self._wake.set)
        log.warning("etcd was wiped or restored; writing back what this node knows")
        self._trace.point("wiped", self._recall.world.round if self._recall.world else 0)
        self._wiped = True
        stay.keeper.mark_lost("etcd was wiped or restored")

    def _shaken_until(self) -> float:
        """Until when a silence of others may be etcd's: it has left this node without an answer, too."""
        if self.stay is None:
            return 0.0
        patience_s = max(self.stay.keep_alive_s, mass_loss_grace.LEAST_S)
        return max(self._came_back_s, self.stay.keeper.stalled_at_s) + patience_s

    def _situation(self, stay: Stay) -> Situation:
        stay.note(self._recall.world)
        return Situation(
            me=stay.me.member,
            world=self._recall.world,
            deleted=self._recall.deleted,
            workers=self._workers.phase,
            started=stay.started,
            unsaid_failures=len(self._workers.failures) > stay.failures_said,
            ready=stay.node.ready,
            done_round=stay.done_round,
            quiet=self._clock() < self._quiet_until_s,
            leave_requested=self._leave_requested,
            leave_said=stay.node.leaving,
            leave_tried=stay.leave_tried,
        )

    async def _perform(self, stay: Stay, step: Step) -> None:
        try:
            result = await self._acts.perform(Scene(stay, self._recall.world, self._recall.revision), step)
        except PASSING as error:
            log.warning("could not %s, trying again: %s", step.do.value, error)
            if self._leave_requested:
                stay.leave_tried = True
            await asyncio.sleep(RETRY_S)
            self._wake.set()
            return
        if result is Result.KEY_LOST:
            stay.keeper.mark_lost(_KEY_IS_GONE)
        if result is Result.WORLD_MOVED:
            self._stale_revision = self._recall.revision  # nothing is decided again before the watch shows the new one

    # -- a lost lease ----------------------------------------------------------------------------

    async def _recover(self, stay: Stay) -> bool:
        """Come back, or stop the workers and begin anew; False when told to leave meanwhile."""
        log.warning("lost the lease of this stay (%s); coming back", stay.keeper.reason)
        self._trace.point("lost", self._recall.world.round if self._recall.world else 0)
        await self._election.close()
        said_s = -math.inf
        while not self._leave_requested:
            self._note_wipe(stay)
            self._look()
            if self._recall.deleted:
                return True  # the loop goes on to the end
            try:
                if await self._entrance.come_back(stay, self._recall, wiped=self._wiped):
                    self._wiped = False
                    self._came_back_s = self._clock()
                    stay.keeper.on_lost = self._wake.set
                    log.info("came back under a new lease; the workers were not touched")
                    return True
                break
            except PASSING as error:
                if (now_s := self._clock()) - said_s >= SAY_AGAIN_S:
                    log.warning("etcd does not answer; the workers go on: %s", error)
                    said_s = now_s
                await asyncio.sleep(RETRY_S)
        await self._stop_workers(soon=False)
        await self._entrance.leave_nothing(stay)
        self.stay = None
        if self._leave_requested:
            return False
        self._wiped = False
        return await self._enter(lambda: self._returning(stay.wanted.own)) is not None

    def _returning(self, own_spec: Slots | None) -> Profile:
        """Etcd may have been wiped, or the job deleted, while the workers stopped, or since the last attempt."""
        self._look_in_the_same_store()
        return returning(self._profile, self._recall, own_spec, wipes=self._mirror.store_reset, noted=self._wipes)

    def _look_in_the_same_store(self) -> None:
        """Take in the newest world, unless there was a wipe: the next stay notes it, and writes back."""
        if self._mirror.store_reset == self._wipes:
            self._look()

    async def _stop_workers(self, *, soon: bool) -> None:
        """Stop them all and wait for it; the caller has no step to take until then."""
        while self._workers.phase not in {Workers.NONE, Workers.SUCCEEDED}:
            self._wake.clear()
            self._look_in_the_same_store()
            if self._workers.phase is not Workers.STOPPING and self.stay is not None:
                self._acts.stop(self.stay, soon=soon)
            await self._wake.wait()

    # -- the end ---------------------------------------------------------------------------------

    async def _depart(self, stay: Stay) -> Outcome:
        await self._election.close()
        try:
            await self._etcd.txn(transactions.farewell(stay.me))
        except PASSING as error:
            log.warning("could not report that this node leaves; it will count as lost when its lease ends: %s", error)
        await self._entrance.leave_nothing(stay)
        self.stay = None
        return Outcome(ExitCode.LEFT, "left in order")

    async def _exit(self, stay: Stay, step: Step) -> Outcome:
        world = self._recall.world
        await self._election.close()
        await self._entrance.leave_nothing(stay)
        self.stay = None
        if not stay.wanted.is_operated and world is not None:
            await self._clear_away(self._recall.revision)
        if step.code is not None:
            return Outcome(step.code, "the job was deleted" if world is None else world.cause.value, world)
        if world is None:
            raise AssertionError("a failed job has a world")
        return Outcome(_failed_code(world, stay, self._workers.failures), world.detail, world)

    async def _clear_away(self, revision: int) -> None:
        """Without an operator the last to leave a finished run deletes it; a crash here leaves it to the next run."""
        try:
            if not (await self._etcd.range(self._keys.nodes)).kvs:
                await self._etcd.txn(
                    Txn((unchanged(self._keys.world, revision),), (Delete(self._keys.all, prefix=True),))
                )
        except PASSING as error:
            log.warning("could not clear the finished run away: %s", error)


def _failed_code(world: World, stay: Stay, failures: list[FailureIn]) -> int:
    """The root cause's own code if it was a worker of this node, else the table's."""
    if world.cause is Cause.JOIN_TIMEOUT:
        return ExitCode.JOIN_TIMEOUT
    for failed in failures:
        if world.root == f"{failed.round}/{stay.me.member.slot:04x}.{failed.local_rank}":
            return from_worker(failed.failure.exit_code)
    return ExitCode.PEER_FAILED
