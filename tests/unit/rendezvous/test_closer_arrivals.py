"""The closing loop while the first round's nodes arrive, in virtual time: few looks, and nobody waits for one.

Every look takes as long as the test says; all else takes no time. So a moment is exact, not measured.
"""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elasticjob_agent.rendezvous.closer import ClosingLoop
from elasticjob_agent.rendezvous.gathering import LEAST_S, MOST_ARRIVING_S, MOST_S
from elasticjob_agent.rendezvous.membership import QUIET_S
from elasticjob_agent.rendezvous.txns import Identity, elect
from elasticjob_agent.trace import Trace
from elasticjob_api import records
from elasticjob_api.link_key import encode_link_key
from elasticjob_api.records import Expected, SlotOwner, Slots
from elasticjob_api.world import State, decode_world
from elasticjob_etcd.memory import MemoryEtcd, MemoryStore
from elasticjob_etcd.protocol import Put, Txn
from tests.unit.rendezvous.views import KEYS, OPERATOR, a_node, member
from tests.unit.rendezvous.virtual_time import VirtualLoop, run

LOOK_S = 0.025
A_MOMENT_S = 1e-6
LAST_CALL_S = Slots(min=1, max=1, desired=1).last_call_s


class Arriving:
    """A job whose closer, in slot 0, is there already."""

    def __init__(self, spec: Slots, *, look_s: float = LOOK_S) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        self.loop = loop
        self.looks: list[float] = []
        self.closed_s: asyncio.Future[float] = loop.create_future()
        """When the first round was seen to run."""
        self._look_s = look_s
        self._store = MemoryStore()
        self._lease = self._store.grant(1e6).id
        self.put(KEYS.link, encode_link_key(b"k" * 32))
        self.want(spec)
        self.join(0)
        assert self._store.txn(elect(self._me, "")).succeeded
        self._store.listeners.add(self._note)

    @property
    def _me(self) -> Identity:
        return Identity(KEYS, member(0), self._lease)

    def put(self, key: str, value: bytes, lease: int = 0) -> None:
        self._store.txn(Txn((), (Put(key, value, lease),)))

    def want(self, spec: Slots) -> None:
        self.put(KEYS.spec, records.encode(spec))

    def join(self, slot: int) -> None:
        who = member(slot)
        self.put(KEYS.node(who.slot, who.incarnation), records.encode(a_node(slot)), self._lease)

    async def join_at(self, *arrivals: tuple[float, int]) -> None:
        """Each at its time: (seconds since the beginning, slot)."""
        for when_s, slot in arrivals:
            await self.until(when_s)
            self.join(slot)

    async def until(self, when_s: float) -> None:
        await asyncio.sleep(when_s - self.loop.time())

    def _note(self) -> None:
        kv = self._store.get(KEYS.world)
        if kv is not None and decode_world(kv.value).state is State.ACTIVE and not self.closed_s.done():
            self.closed_s.set_result(self.loop.time())

    def _look(self) -> str:
        """Who plans asks for a nonce, once: there the time goes that a look takes."""
        self.looks.append(self.loop.time())
        self.loop.advance(self._look_s)
        return f"{len(self.looks):08x}"

    def close_rounds(self) -> Coroutine[Any, Any, None]:
        etcd = MemoryEtcd(self._store)
        return ClosingLoop(etcd=etcd, me=self._me, clock=self.loop.time, nonce=self._look, trace=Trace(None, "")).run()


def arriving(spec: Slots, act: Callable[[Arriving], Coroutine[Any, Any, None]], *, look_s: float = LOOK_S) -> None:
    """`act` on a job while its closer closes rounds."""

    async def play() -> None:
        job = Arriving(spec, look_s=look_s)
        closer = asyncio.create_task(job.close_rounds())
        acting = asyncio.create_task(act(job))
        await asyncio.wait([closer, acting], return_when=asyncio.FIRST_COMPLETED)
        closer.cancel()
        await asyncio.wait([closer])
        assert closer.cancelled(), closer.exception()
        await acting

    run(play())


def all_of(count: int) -> Slots:
    return Slots(min=count, max=count, desired=count)


def mapped(least: int, most: int) -> Slots:
    owners = {f"{slot:04x}": SlotOwner(f"pod-{slot}") for slot in range(most)}
    return Slots(min=least, max=most, desired=most, slots=owners, operator=OPERATOR)


def test_while_nodes_arrive_there_is_a_look_every_quarter_of_a_second() -> None:
    async def act(job: Arriving) -> None:
        await job.until(1.0)
        before = len(job.looks)
        await job.join_at(*((1.0 + slot / 100, slot) for slot in range(1, 101)))
        assert len(job.looks) - before <= 1 / MOST_ARRIVING_S

    arriving(all_of(200), act)


@pytest.mark.parametrize("last_s", [1.0, 1.001, 1.03, 1.1, 1.2, 1.249, 1.26])
def test_the_first_round_closes_with_the_last_node(last_s: float) -> None:
    async def act(job: Arriving) -> None:
        await job.join_at((1.0, 1), (last_s, 2))
        came_s = job.loop.time()
        assert await job.closed_s == pytest.approx(came_s + LOOK_S, abs=A_MOMENT_S)

    arriving(all_of(3), act)


@settings(max_examples=100)
@given(
    st.lists(st.sampled_from([0.0, 0.0004, 0.003, 0.01, 0.04, 0.3]), min_size=1, max_size=20),
    st.sampled_from([0.0, 0.0004, 0.001, 0.005, 0.025]),
)
def test_however_nodes_come_nobody_waits_longer_than_for_one_usual_look(pauses: Sequence[float], look_s: float) -> None:
    async def act(job: Arriving) -> None:
        for slot, pause_s in enumerate(pauses, 1):
            await asyncio.sleep(pause_s)
            job.join(slot)
        came_s = job.loop.time()
        # Two looks: one may have begun without the last node, that which opens the first round.
        usual_s = min(max(LEAST_S, 2 * look_s), MOST_S)
        assert await job.closed_s <= came_s + usual_s + 2 * look_s + A_MOMENT_S

    arriving(all_of(len(pauses) + 1), act, look_s=look_s)


def test_who_is_wanted_no_longer_is_not_waited_for_though_others_arrive() -> None:
    async def act(job: Arriving) -> None:
        await job.join_at((1.0, 1), (1.3, 2))
        await job.until(1.31)
        job.want(all_of(3))
        assert await job.closed_s <= 1.31 + MOST_S + LOOK_S + A_MOMENT_S

    arriving(all_of(20), act)


def test_the_last_call_begins_with_the_minimum() -> None:
    async def act(job: Arriving) -> None:
        job.put(KEYS.expected, records.encode(Expected(tuple(range(20)))))
        await job.join_at((1.0, 1), (1.06, 2))
        assert await job.closed_s == pytest.approx(1.06 + LAST_CALL_S + LOOK_S, abs=A_MOMENT_S)

    arriving(mapped(3, 20), act)


def test_the_last_call_ends_on_time_though_others_arrive() -> None:
    async def act(job: Arriving) -> None:
        job.put(KEYS.expected, records.encode(Expected(tuple(range(20)))))
        await job.join_at((1.0, 1), (1.06, 2), (0.99 + LAST_CALL_S, 3))
        assert await job.closed_s <= 1.06 + LAST_CALL_S + LOOK_S + A_MOMENT_S

    arriving(mapped(3, 20), act)


def test_without_an_operator_the_quiet_second_begins_with_the_newest_node() -> None:
    async def act(job: Arriving) -> None:
        await job.join_at((1.0, 1), (1.06, 2), (1.3, 3), (1.31, 4))
        assert await job.closed_s <= 1.31 + QUIET_S + MOST_S + LOOK_S + A_MOMENT_S

    arriving(Slots(min=3, max=20, desired=20), act)


def test_a_change_right_before_a_timer_still_has_its_usual_moment_for_others() -> None:
    async def act(job: Arriving) -> None:
        await job.join_at((1.0, 1), (1.06, 2))
        before = len(job.looks)
        timer_s = 1.06 + QUIET_S
        await job.join_at((timer_s - 0.01, 3), (timer_s + 0.01, 4), (timer_s + 0.2, 5))
        assert len(job.looks) - before == len(["with the minimum", "with the two"])

    arriving(Slots(min=3, max=20, desired=20), act)


def test_once_the_round_runs_changes_are_gathered_as_ever() -> None:
    async def act(job: Arriving) -> None:
        await job.join_at((1.0, 1), (1.1, 2))
        began_s = await job.closed_s + 1.0
        await job.until(began_s)
        before = len(job.looks)
        await job.join_at(*((began_s + slot / 100, slot) for slot in range(3, 63)))
        assert len(job.looks) - before == pytest.approx(0.6 / (MOST_S + LOOK_S), abs=1)

    arriving(all_of(3), act)
