"""The in-memory store against a real etcd: any sequence of operations has the same answers, errors and events.

The real one has no other client, so its revisions differ from the model's by a constant.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from dataclasses import replace
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from elasticjob_etcd.client import EtcdClient
from elasticjob_etcd.embedded import EmbeddedEtcd
from elasticjob_etcd.errors import Compacted, EtcdError
from elasticjob_etcd.interface import (
    Compare,
    Delete,
    Get,
    KeyValue,
    Op,
    Put,
    Target,
    Txn,
    WatchEvent,
)
from elasticjob_etcd.memory.client import InMemoryStore
from tests.integration.etcd.conftest import compact

T = TypeVar("T")

KEYS = ["", "a", "a/", "a/b", "a0", "b", "é", "a\udcff", "a\udcffb", "\U0010ffff"]
NO_LEASE, UNKNOWN_LEASE = -1, -2

keys = st.sampled_from(KEYS)
values = st.sampled_from([b"", b"x", b"y"])
leases = st.integers(UNKNOWN_LEASE, 2)  # an index into the leases so far
puts = st.builds(Put, keys, values, leases)
operations = st.one_of(puts, st.builds(Delete, keys, st.booleans()), st.builds(Get, keys, st.booleans()))
numbers = st.sampled_from([Target.CREATE, Target.MOD, Target.VERSION, Target.LEASE])
compares = st.one_of(
    st.builds(Compare, keys, numbers, st.integers(0, 3)),
    st.builds(Compare, keys, st.just(Target.VALUE), values),
)
branches = st.lists(operations, max_size=4).map(tuple)
txns = st.builds(Txn, st.lists(compares, max_size=2).map(tuple), branches, branches)


class Pair:
    """The model and the real store side by side: the same things with other revisions and lease ids."""

    def __init__(self, client: EtcdClient, offset: int) -> None:
        self.client = client
        self.offset = offset
        self.store = InMemoryStore(min_ttl_s=1.0)
        self.leases: list[tuple[int, int]] = []  # (model's, real one's)

    def lease(self, index: int, side: int) -> int:
        if index == NO_LEASE or (index >= 0 and not self.leases):
            return 0
        return 0x7777 if index == UNKNOWN_LEASE else self.leases[index % len(self.leases)][side]

    def concrete(self, txn: Txn, side: int) -> Txn:
        """`txn` with lease ids and revisions as they are on one side."""
        return Txn(
            tuple(self._compare(compare, side) for compare in txn.compares),
            tuple(self._op(op, side) for op in txn.success),
            tuple(self._op(op, side) for op in txn.failure),
        )

    def _op(self, op: Op, side: int) -> Op:
        return replace(op, lease=self.lease(op.lease, side)) if isinstance(op, Put) else op

    def _compare(self, compare: Compare, side: int) -> Compare:
        if compare.target is Target.LEASE:
            return replace(compare, equals=self.lease(int(compare.equals) - 1, side))
        if compare.target in {Target.CREATE, Target.MOD} and compare.equals:
            recent = max(1, self.store.revision - int(compare.equals) + 1)
            return replace(compare, equals=recent + side * self.offset)
        return compare

    def as_model(self, kv: KeyValue) -> KeyValue:
        """A real key as the model would have it."""
        lease = next((model for model, real in self.leases if real == kv.lease), kv.lease)
        create = kv.create_revision - self.offset if kv.create_revision else 0
        return replace(kv, create_revision=create, mod_revision=kv.mod_revision - self.offset, lease=lease)


class StoreMachine(RuleBasedStateMachine):
    """Runs each step on both sides and compares."""

    server: EmbeddedEtcd

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.pair = self.run(self._connect())
        self.start_revision = self.pair.store.revision + 1

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(work)

    async def _connect(self) -> Pair:
        client = EtcdClient(self.server.endpoint)
        await client.txn(Txn((), (Put("x", b""),)))  # so that there is something to delete
        emptied = await client.txn(Txn((), (Delete("", prefix=True),)))
        return Pair(client, emptied.revision - 1)

    def teardown(self) -> None:
        async def end() -> None:
            for _, real in self.pair.leases:
                await self.pair.client.lease_revoke(real)
            await self.pair.client.close()

        self.run(end())
        self.runner.close()

    @rule(ttl_s=st.floats(60, 3600) | st.just(1e10))
    def grant(self, ttl_s: float) -> None:
        model = outcome(lambda: self.pair.store.grant(ttl_s))
        real = self.run(async_outcome(self.pair.client.lease_grant(ttl_s)))
        if isinstance(model, type) or isinstance(real, type):
            assert model == real
            return
        assert model.ttl_s == real.ttl_s
        self.pair.leases.append((model.id, real.id))

    @rule(txn=txns)
    def transact(self, txn: Txn) -> None:
        of_model, of_real = (self.pair.concrete(txn, side) for side in (0, 1))
        model = outcome(lambda: self.pair.store.txn(of_model))
        real = self.run(async_outcome(self.pair.client.txn(of_real)))
        if isinstance(model, type) or isinstance(real, type):
            assert model == real
            return
        reads = tuple(tuple(self.pair.as_model(kv) for kv in read) for read in real.reads)
        assert replace(real, revision=real.revision - self.pair.offset, reads=reads) == model

    @precondition(lambda self: self.pair.leases)
    @rule(index=leases)
    def revoke(self, index: int) -> None:
        model = self.pair.store.revoke(self.pair.lease(index, 0))
        assert self.run(self.pair.client.lease_revoke(self.pair.lease(index, 1))) == model

    @rule(index=leases)
    def keep_alive(self, index: int) -> None:
        model = self.pair.store.keep_alive(self.pair.lease(index, 0))
        assert self.run(self.pair.client.lease_keep_alive(self.pair.lease(index, 1))) == model

    @precondition(lambda self: self.pair.store.revision > max(self.start_revision, self.pair.store.compact_revision))
    @rule()
    def compact(self) -> None:
        revision = self.pair.store.revision
        self.pair.store.compact(revision)
        self.run(compact(self.server.endpoint, revision + self.pair.offset))
        watch = self.pair.client.watch("", start_revision=revision - 1 + self.pair.offset)
        assert self.run(async_outcome(anext(watch))) is Compacted
        assert outcome(lambda: self.pair.store.events_since(revision - 1, "")) is Compacted
        self.start_revision = revision + 1  # etcd before 3.5.15 may drop a deletion made in the compacted revision

    @rule(prefix=keys)
    def events(self, prefix: str) -> None:
        model = self.pair.store.events_since(self.start_revision, prefix)
        assert self.run(self._watched(prefix, len(model))) == model

    async def _watched(self, prefix: str, count: int) -> tuple[WatchEvent, ...]:
        found: list[WatchEvent] = []
        watch = self.pair.client.watch(prefix, start_revision=self.start_revision + self.pair.offset)
        async with asyncio.timeout(10), contextlib.aclosing(watch):
            while len(found) < count:
                found += (await anext(watch)).events
        return tuple(WatchEvent(self.pair.as_model(event.kv), event.deleted) for event in found)

    @invariant()
    def both_hold_the_same(self) -> None:
        real = self.run(self.pair.client.range(""))
        model = self.pair.store.range("")
        assert tuple(self.pair.as_model(kv) for kv in real.kvs) == model.kvs
        assert real.revision - self.pair.offset == model.revision


def outcome(work: Callable[[], T]) -> T | type[EtcdError]:
    """Return the result of `work`, or the error that it raises."""
    try:
        return work()
    except EtcdError as error:
        return type(error)


async def async_outcome(work: Awaitable[T]) -> T | type[EtcdError]:
    try:
        return await work
    except EtcdError as error:
        return type(error)


@pytest.fixture
def own_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedEtcd]:
    server = asyncio.run(EmbeddedEtcd.start(tmp_path_factory.mktemp("etcd"), client_port=0))
    yield server
    asyncio.run(server.stop())


@pytest.mark.etcd
def test_the_in_memory_store_answers_as_a_real_etcd_does(own_server: EmbeddedEtcd) -> None:
    machine = type("Machine", (StoreMachine,), {"server": own_server})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=40,
            stateful_step_count=25,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
