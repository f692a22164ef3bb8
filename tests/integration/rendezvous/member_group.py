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
from elasticjob_agent.tracing import Tracer
from elasticjob_api import records
from elasticjob_api.keys import FailureKey, Keys
from elasticjob_api.records import SlotOwner, SpecRecord, WorkerFailure
from elasticjob_api.rendezvous_state import RendezvousState, RoundPhase
from elasticjob_api.rendezvous_view import RendezvousView, parse_view
from elasticjob_api.runtime_config import RuntimeConfig
from elasticjob_etcd.errors import StoreReset, Unavailable
from elasticjob_etcd.interface import Etcd, Put, Txn
from testing.scripted_keep import ScriptedKeep
from testing.waiting import aeventually, slowness

_numbers = itertools.count(1)


class ScriptedWorkers:
    """A `WorkersPort` whose workers run until the test ends them; they stop at once unless `slow`."""

    def __init__(self) -> None:
        self.on_change: Callable[[], None] = lambda: None
        self.phase = Workers.NONE
        self.failures: dict[FailureKey, WorkerFailure] = {}
        self.starts: list[Assignment] = []
        self.stops = 0
        self.last_stop_order: tuple[float, str] = (-1.0, "")
        """The grace in seconds and the signal of the last order to stop."""
        self.slow = False
        self._port = 20000 + next(_numbers)

    async def start(self, assignment: Assignment, config: RuntimeConfig) -> None:
        assert self.phase in {Workers.NONE, Workers.SUCCEEDED}
        assert len(self.starts) <= config.max_restarts + 10
        self.starts.append(assignment)
        self.failures = {}
        self._become(Workers.RUNNING)

    def stop(self, *, grace_s: float, signal_name: str) -> None:
        self.last_stop_order = grace_s, signal_name
        self.stops += 1
        self.phase = Workers.STOPPING
        if not self.slow:
            asyncio.get_running_loop().call_soon(self.let_stop)

    def let_stop(self) -> None:
        """Let the workers be stopped."""
        if self.phase is Workers.STOPPING:
            self._become(Workers.NONE)

    def renew_master_port(self) -> int:
        self._port += 1000
        return self._port

    @property
    def rounds(self) -> list[int]:
        """The rounds started, in order."""
        return [place.round for place in self.starts]

    def fail(self, exit_code: int = 1) -> None:
        """Let one worker fail by itself."""
        place = self.starts[-1]
        self.failures[place.failure_key(0)] = WorkerFailure(
            incarnation=place.member.incarnation,
            rank=place.base_rank,
            exit_code=exit_code,
            message=f"exit {exit_code}",
        )
        self._become(Workers.FAILED)

    def finish(self) -> None:
        """Let all workers exit with code 0."""
        self._become(Workers.SUCCEEDED)

    def _become(self, phase: Workers) -> None:
        self.phase = phase
        self.on_change()


@dataclass
class GroupMember:
    """One running member."""

    etcd: Etcd
    workers: ScriptedWorkers
    keep: ScriptedKeep
    member: RendezvousMember
    task: "asyncio.Task[Outcome]"

    @property
    def lease(self) -> int:
        """The lease of its current session."""
        assert self.member.session is not None
        return self.member.session.me.lease

    async def end(self) -> int:
        """Wait for its end, and return its exit code."""
        async with asyncio.timeout(20 * slowness()):
            return int((await self.task).code)

    async def crash(self) -> None:
        """End it without a write to etcd; its lease expires."""
        self.task.cancel()
        await asyncio.wait([self.task])
        if not self.task.cancelled():
            self.task.exception()  # it had ended before; the test checks what it raised


@dataclass
class MemberGroup:
    """The members of one job; `connect` makes a client of the store."""

    connect: Callable[[], Etcd]
    prefix: str
    spec: SpecRecord
    lease_ttl_s: float = 2.0
    group_members: list[GroupMember] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.spec = replace(self.spec, last_call_timeout_s=LAST_CALL_TIMEOUT_S, keep_alive_s=self.lease_ttl_s)
        self.keys = Keys(self.prefix.rstrip("/"))
        self.observer = self.connect()

    def join(self, count: int = 1) -> list[GroupMember]:
        """Start so many more members, and return them before they have joined."""
        new = [self._make(len(self.group_members) + nth) for nth in range(count)]
        self.group_members += new
        return new

    def _make(self, slot: int) -> GroupMember:
        number, etcd, workers, keep = next(_numbers), self.connect(), ScriptedWorkers(), ScriptedKeep()
        draws = itertools.count(number << 16)
        is_operated = self.spec.operator is not None
        identity = NodeIdentity(
            keys=self.keys,
            pod=f"pod-{slot}" if is_operated else f"pod-{number}",
            pod_uid=f"uid-{number}",
            host=f"host-{number}",
            address="127.0.0.1",
            nproc=2,
            slot=slot if is_operated else None,
            own_spec=None if is_operated else self.spec,
        )
        member = RendezvousMember(
            etcd=etcd,
            identity=identity,
            workers=workers,
            clock=asyncio.get_running_loop().time,
            random_hex=lambda: f"{next(draws):08x}",
            trace=Tracer(None, ""),
            keep=keep,
        )
        return GroupMember(etcd, workers, keep, member, asyncio.create_task(member.run(), name=f"member {number}"))

    async def view(self) -> RendezvousView:
        """Return all keys of the job, decoded."""
        return parse_view(self.keys, (await self.observer.range(self.keys.everything)).kvs)

    async def state(self, phase: RoundPhase, round_: int) -> RendezvousState:
        """Wait for this phase and round, and return the state."""

        async def seen() -> RendezvousState | None:
            self._raise_faults()
            try:
                state = (await self.view()).state
            except (Unavailable, StoreReset):
                return None  # etcd does not answer the test either
            return state if state is not None and (state.phase, state.round) == (phase, round_) else None

        return await aeventually(_found(seen), within_s=20, what=f"{phase.value} {round_}")

    async def running(self, round_: int, *peers: GroupMember) -> RendezvousState:
        """Wait until all given members, or else all members, run this round."""
        group = peers or tuple(self.group_members)
        state = await self.state(RoundPhase.ACTIVE, round_)
        await aeventually(
            lambda: all(m.workers.rounds[-1:] == [round_] and m.workers.phase is Workers.RUNNING for m in group),
            within_s=20,
            what=f"all run round {round_}",
        )
        return state

    async def operate(self) -> None:
        """Write the spec as an operator does, also after a wipe; members that join later have its slots."""
        owners = {slot: SlotOwner(f"pod-{slot}") for slot in range(self.spec.max)}
        self.spec = replace(self.spec, operator="op", slots=owners)
        await self.observer.txn(Txn((), (Put(self.keys.spec, records.encode(self.spec)),)))

    async def set_replicas(self, **changes: Any) -> None:
        """Change the spec."""
        now = (await self.view()).spec
        assert now is not None
        await self.observer.txn(Txn((), (Put(self.keys.spec, records.encode(replace(now, **changes))),)))

    async def finish(self, *peers: GroupMember) -> list[int]:
        """Let the workers of these members exit with code 0, and wait for the members' ends."""
        for peer in peers:
            peer.workers.finish()
        return [await peer.end() for peer in peers]

    async def leader(self) -> GroupMember:
        """Return the leader."""
        peer = await aeventually(
            lambda: next((m for m in self.group_members if m.member._election.is_leader), None),
            within_s=20,
            what="a leader",
        )
        assert peer is not None
        return peer

    def members_by_rank(self, state: RendezvousState) -> list[GroupMember]:
        """Return the members of a round in rank order."""
        here = {peer.member.session.me.member: peer for peer in self.group_members if peer.member.session is not None}
        return [here[member] for member in state.members]

    def _raise_faults(self) -> None:
        for peer in self.group_members:
            if peer.task.done() and not peer.task.cancelled():
                peer.task.result()

    async def close(self) -> None:
        """Let all members crash; nothing remains running."""
        for peer in self.group_members:
            await peer.crash()
            await peer.etcd.close()
        await self.observer.close()


def _found(seen: Callable[[], Awaitable[RendezvousState | None]]) -> Callable[[], Awaitable[RendezvousState]]:
    """Return the function for `aeventually`, which repeats until it returns a value."""

    async def ask() -> RendezvousState:
        return await seen()  # type: ignore[return-value]  # None is falsy: `aeventually` repeats it

    return ask
