"""Who stands in a new job opens its first round in the same breath, and nowhere else."""

import itertools
from dataclasses import replace

import pytest

from elasticjob_agent.rendezvous.leader.campaign import Campaign
from elasticjob_agent.rendezvous.protocol import transactions
from elasticjob_agent.rendezvous.protocol.transactions import SessionKeys
from elasticjob_agent.rendezvous.protocol.view import RendezvousView, parse_view
from elasticjob_api import records, rendezvous_state
from elasticjob_api.records import ExpectedSlots, SpecRecord
from elasticjob_api.rendezvous_state import Leader, Member, RendezvousState, RoundPhase
from elasticjob_api.runtime_config import encode_runtime_config, runtime_config_of
from elasticjob_etcd.interface import Delete, Put, Txn
from elasticjob_etcd.memory.client import InMemoryEtcd
from elasticjob_etcd.memory.store import InMemoryStore
from tests.unit.rendezvous.views import KEYS, a_node

SPEC = SpecRecord(min=1, max=2, desired=2, restart_id="r7", first_restarts=2)
ME = Member(0, "0000000a")


class Scene:
    """A store in which one node has joined, and nobody stood yet."""

    def __init__(self, spec: SpecRecord = SPEC) -> None:
        self.store = InMemoryStore()
        self.me = SessionKeys(KEYS, ME, self.store.grant(6.0).id)
        self.put(KEYS.spec, records.encode(spec))
        self.put(self.me.node_key, records.encode(a_node(0, lease=self.me.lease)), self.me.lease)

    def put(self, key: str, value: bytes, lease: int = 0) -> None:
        assert self.store.txn(Txn((), (Put(key, value, lease),))).succeeded

    def delete(self, key: str) -> None:
        self.store.txn(Txn((), (Delete(key),)))

    async def stand(self, *, is_new: bool = True) -> RendezvousState | None:
        digits = itertools.count(1)
        standing = Campaign(InMemoryEtcd(self.store), self.me, "10.0.0.1:7", lambda: f"{next(digits):08x}")
        return await standing.run(is_new=is_new)

    @property
    def closer(self) -> Leader | None:
        kv = self.store.get(KEYS.leader)
        return None if kv is None else rendezvous_state.decode_leader(kv.value)

    def view(self) -> RendezvousView:
        return parse_view(KEYS, self.store.range(KEYS.everything).kvs)


async def test_in_a_new_job_the_closer_and_the_first_world_come_in_one_revision() -> None:
    scene = Scene()
    opened = await scene.stand()
    view, kv = scene.view(), scene.store.get(KEYS.leader)
    assert opened == view.world
    assert opened is not None
    assert (opened.state, opened.round, opened.restarts, opened.restart_id) == (RoundPhase.FORMING, 1, 2, "r7")
    assert (view.runtime_config, len(view.link_secret or b"")) == (runtime_config_of(SPEC), 32)
    assert scene.closer == Leader(ME, "10.0.0.1:7")
    assert kv is not None
    assert kv.lease == scene.me.lease
    assert {kv.mod_revision, view.world_revision, view.runtime_config_revision, view.link_secret_revision} == {
        kv.mod_revision
    }


EXISTS = {
    "a world": (
        KEYS.rendezvous_state,
        rendezvous_state.encode_state(RendezvousState(state=RoundPhase.ACTIVE, round=3, nonce="n", members=(ME,))),
    ),
    "a world that cannot be read": (KEYS.rendezvous_state, b"?"),
    "a key of the links": (KEYS.link_secret, b"1 " + b"ab" * 32),
}


@pytest.mark.parametrize("name", EXISTS)
async def test_where_something_was_told_before_only_the_closers_key_is_written(name: str) -> None:
    scene = Scene()
    key, value = EXISTS[name]
    scene.put(key, value)
    assert await scene.stand() is None
    kv = scene.store.get(key)
    assert (kv.value if kv else None, scene.closer) == (value, Leader(ME, "10.0.0.1:7"))
    assert scene.view().runtime_config is None


SPECS = {
    "suspended": replace(SPEC, suspended=True),
    "written again after a wipe": replace(SPEC, first_round=1001),
}


@pytest.mark.parametrize("name", SPECS)
async def test_of_such_a_spec_no_world_is_opened_at_once(name: str) -> None:
    scene = Scene(SPECS[name])
    assert await scene.stand() is None
    assert (scene.view().world, scene.closer) == (None, Leader(ME, "10.0.0.1:7"))


async def test_a_spec_that_cannot_be_read_opens_nothing() -> None:
    scene = Scene()
    scene.put(KEYS.spec, b"?")
    assert await scene.stand() is None
    assert (scene.view().world, scene.closer) == (None, Leader(ME, "10.0.0.1:7"))


async def test_without_any_spec_nothing_is_opened() -> None:
    scene = Scene()
    scene.delete(KEYS.spec)
    assert await scene.stand() is None
    assert scene.view().world is None


async def test_who_has_seen_a_world_opens_none_where_it_is_gone() -> None:
    scene = Scene()
    assert await scene.stand(is_new=False) is None
    assert (scene.view().world, scene.closer) == (None, Leader(ME, "10.0.0.1:7"))


async def test_a_spec_that_an_operator_has_emptied_for_the_end_opens_nothing() -> None:
    scene = Scene()
    scene.put(KEYS.expected, records.encode(ExpectedSlots()))
    assert await scene.stand() is None
    assert (scene.view().world, scene.closer) == (None, Leader(ME, "10.0.0.1:7"))


async def test_what_an_operator_expects_is_no_obstacle() -> None:
    scene = Scene(replace(SPEC, operator="elasticjob-operator"))
    scene.put(KEYS.expected, records.encode(ExpectedSlots()))
    assert await scene.stand() is not None


async def test_terms_that_were_told_are_told_again() -> None:
    scene = Scene()
    scene.put(KEYS.runtime_config, encode_runtime_config(replace(runtime_config_of(SPEC), max_restarts=77)))
    assert await scene.stand() is not None
    assert scene.view().runtime_config == runtime_config_of(SPEC)


async def test_where_another_is_the_closer_nothing_is_written() -> None:
    scene = Scene()
    other = Member(1, "0000000b")
    scene.put(KEYS.leader, rendezvous_state.encode_leader(Leader(other, "")))
    assert await scene.stand() is None
    assert (scene.view().world, scene.closer) == (None, Leader(other, ""))


async def test_whose_own_key_is_gone_writes_nothing() -> None:
    scene = Scene()
    scene.store.expire(scene.me.lease)
    assert await scene.stand() is None
    assert (scene.view().world, scene.closer) == (None, None)


def test_a_spec_that_has_changed_since_it_was_read_opens_nothing() -> None:
    scene = Scene()
    kv = scene.store.get(KEYS.spec)
    assert kv is not None
    scene.put(KEYS.spec, records.encode(replace(SPEC, desired=1)))
    opened = RendezvousState(state=RoundPhase.FORMING, round=1, nonce="n")
    first = transactions.FirstState(
        opened, kv.mod_revision, transactions.Push(runtime_config_of(SPEC), b"k" * 32), is_operated=False
    )
    assert not scene.store.txn(transactions.campaign(scene.me, "", first)).succeeded
    assert (scene.view().world, scene.closer) == (None, None)
