"""Real members of one job in one event loop, over any store; only their workers are scripted."""

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Any

from elasticjob_agent.rendezvous.member.join import NodeIdentity
from elasticjob_agent.rendezvous.member.rendezvous_member import RendezvousMember
from elasticjob_agent.rendezvous.protocol.interfaces import Outcome
from elasticjob_agent.rendezvous.protocol.member_plan import Workers
from elasticjob_agent.rendezvous.protocol.membership import LAST_CALL_TIMEOUT_S
from elasticjob_agent.rendezvous.protocol.ranks import Assignment
from elasticjob_agent.rendezvous.protocol.transactions import FailureRecord
from elasticjob_agent.rendezvous.protocol.view import RendezvousView, parse_view
from elasticjob_agent.tracing import Tracer
from elasticjob_api import records
from elasticjob_api.keys import Keys
from elasticjob_api.records import SlotOwner, SpecRecord, WorkerFailure
from elasticjob_api.rendezvous_state import RendezvousState, RoundPhase
from elasticjob_api.runtime_config import RuntimeConfig
from elasticjob_etcd.errors import StoreReset, Unavailable
from elasticjob_etcd.interface import Etcd, Put, Txn
from testing.waiting import aeventually, slowness

_numbers = itertools.count(1)


class ScriptedWorkers:
    """Implements `WorkersPort`: runs until the test says otherwise; stops at once unless it is `slow`."""

    def __init__(self) -> None:
        self.on_change: Callable[[], None] = lambda: None
        self.phase = Workers.NONE
        self.failures: list[FailureRecord] = []
        self.starts: list[Assignment] = []
        self.stops = 0
        self.told: tuple[float, str] = (-1.0, "")
        """Within how many seconds to stop, and by which signal, when it was last said."""
        self.slow = False
        self._port = 20000 + next(_numbers)

    async def start(self, assignment: Assignment, config: RuntimeConfig) -> None:
        assert self.phase in {Workers.NONE, Workers.SUCCEEDED}
        assert len(self.starts) <= config.max_restarts + 10
        self.starts.append(assignment)
        self.failures = []
        self._become(Workers.RUNNING)

    def stop(self, *, grace_s: float, signal_name: str) -> None:
        self.told = grace_s, signal_name
        self.stops += 1
        self.phase = Workers.STOPPING
        if not self.slow:
            asyncio.get_running_loop().call_soon(self.let_stop)

    def let_stop(self) -> None:
        """They have stopped."""
        if self.phase is Workers.STOPPING:
            self._become(Workers.NONE)

    def renew_master_port(self) -> int:
        self._port += 1000
        return self._port

    @property
    def rounds(self) -> list[int]:
        """Rounds started, in order."""
        return [place.round for place in self.starts]

    def fail(self, exit_code: int = 1) -> None:
        """One ends badly by itself."""
        place = self.starts[-1]
        failure = WorkerFailure(incarnation="", rank=place.base_rank, exit_code=exit_code, message=f"exit {exit_code}")
        self.failures.append(FailureRecord(place.round, 0, failure))
        self._become(Workers.FAILED)

    def finish(self) -> None:
        """All exit 0."""
        self._become(Workers.SUCCEEDED)

    def _become(self, phase: Workers) -> None:
        self.phase = phase
        self.on_change()


@dataclass
class GroupMember:
    """One member at work."""

    etcd: Etcd
    workers: ScriptedWorkers
    member: RendezvousMember
    task: "asyncio.Task[Outcome]"

    @property
    def lease(self) -> int:
        """The lease of its present stay."""
        assert self.member.session is not None
        return self.member.session.me.lease

    async def end(self) -> int:
        """Wait for its end; its exit code."""
        async with asyncio.timeout(20 * slowness()):
            return int((await self.task).code)

    async def crash(self) -> None:
        """It is gone without a word; its lease runs out by itself."""
        self.task.cancel()
        await asyncio.wait([self.task])
        if not self.task.cancelled():
            self.task.exception()  # it had ended before; what it raised is for the test to ask


@dataclass
class MemberGroup:
    """The members of one job; `connect` makes a client of the store."""

    connect: Callable[[], Etcd]
    prefix: str
    spec: SpecRecord
    lease_ttl_s: float = 2.0
    group_members: list[GroupMember] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.spec = replace(self.spec, last_call_timeout_s=LAST_CALL_TIMEOUT_S)
        self.keys = Keys(self.prefix.rstrip("/"))
        self.observer = self.connect()

    def join(self, count: int = 1) -> list[GroupMember]:
        """So many more members; they are on their way when this returns."""
        new = [self._make(len(self.group_members) + nth) for nth in range(count)]
        self.group_members += new
        return new

    def _make(self, slot: int) -> GroupMember:
        number, etcd, workers = next(_numbers), self.connect(), ScriptedWorkers()
        draws = itertools.count(number << 16)
        is_operated = self.spec.operator is not None
        identity = NodeIdentity(
            keys=self.keys,
            pod=f"pod-{slot}" if is_operated else f"pod-{number}",
            pod_uid=f"uid-{number}",
            host=f"host-{number}",
            address="127.0.0.1",
            nproc=2,
            lease_ttl_s=self.lease_ttl_s,
            slot=slot if is_operated else None,
            own_spec=None if is_operated else self.spec,
        )
        member = RendezvousMember(
            etcd=etcd,
            identity=identity,
            workers=workers,
            clock=asyncio.get_running_loop().time,
            draw=lambda: f"{next(draws):08x}",
            trace=Tracer(None, ""),
        )
        return GroupMember(etcd, workers, member, asyncio.create_task(member.run(), name=f"member {number}"))

    async def view(self) -> RendezvousView:
        """Everything as it is."""
        return parse_view(self.keys, (await self.observer.range(self.keys.everything)).kvs)

    async def world(self, state: RoundPhase, round_: int) -> RendezvousState:
        """Wait for this world."""

        async def seen() -> RendezvousState | None:
            self._raise_faults()
            try:
                world = (await self.view()).world
            except (Unavailable, StoreReset):
                return None  # the observer has the members' trouble
            return world if world is not None and (world.state, world.round) == (state, round_) else None

        return await aeventually(_found(seen), within_s=20, what=f"{state.value} {round_}")

    async def running(self, round_: int, *mates: GroupMember) -> RendezvousState:
        """Wait until all of these (all that there are) run this round."""
        crew = mates or tuple(self.group_members)
        world = await self.world(RoundPhase.ACTIVE, round_)
        await aeventually(
            lambda: all(m.workers.rounds[-1:] == [round_] and m.workers.phase is Workers.RUNNING for m in crew),
            within_s=20,
            what=f"all run round {round_}",
        )
        return world

    async def operate(self) -> None:
        """Write the spec as an operator does, also after a wipe; whoever joins then has one of its slots."""
        owners = {f"{slot:04x}": SlotOwner(f"pod-{slot}") for slot in range(self.spec.max)}
        self.spec = replace(self.spec, operator="op", slots=owners, keep_alive_s=self.lease_ttl_s)
        await self.observer.txn(Txn((), (Put(self.keys.spec, records.encode(self.spec)),)))

    async def set_replicas(self, **changes: Any) -> None:
        """The spec changes."""
        now = (await self.view()).spec
        assert now is not None
        await self.observer.txn(Txn((), (Put(self.keys.spec, records.encode(replace(now, **changes))),)))

    async def finish(self, *mates: GroupMember) -> list[int]:
        """The workers of these exit 0; wait until they have ended."""
        for mate in mates:
            mate.workers.finish()
        return [await mate.end() for mate in mates]

    async def leader(self) -> GroupMember:
        """Who closes rounds now."""
        mate = await aeventually(
            lambda: next((m for m in self.group_members if m.member._election.is_leader), None),
            within_s=20,
            what="a closer",
        )
        assert mate is not None
        return mate

    def members_by_rank(self, world: RendezvousState) -> list[GroupMember]:
        """The members of a round in rank order."""
        here = {mate.member.session.me.member: mate for mate in self.group_members if mate.member.session is not None}
        return [here[member] for member in world.members]

    def _raise_faults(self) -> None:
        for mate in self.group_members:
            if mate.task.done() and not mate.task.cancelled():
                mate.task.result()

    async def close(self) -> None:
        """Everybody crashes; nothing is left running."""
        for mate in self.group_members:
            await mate.crash()
            await mate.etcd.close()
        await self.observer.close()


def _found(seen: Callable[[], Awaitable[RendezvousState | None]]) -> Callable[[], Awaitable[RendezvousState]]:
    """For `aeventually`, which goes on until it gets something."""

    async def ask() -> RendezvousState:
        return await seen()  # type: ignore[return-value]  # None is falsy: it asks again

    return ask
