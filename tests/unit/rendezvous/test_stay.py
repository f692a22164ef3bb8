"""Entering: what is waited for, and how long."""

import asyncio
import itertools

import pytest

from elasticjob_agent.rendezvous.errors import NothingWanted
from elasticjob_agent.rendezvous.joining import Profile
from elasticjob_agent.rendezvous.stay import SPEC_S, Entrance, Stay
from elasticjob_api import records
from elasticjob_api.keys import Keys
from elasticjob_api.records import SlotOwner, Slots
from elasticjob_etcd.memory import MemoryEtcd, MemoryStore
from elasticjob_etcd.protocol import Put, Txn

KEYS = Keys("/elasticjob/test")
SPEC = Slots(min=1, max=2, desired=2, operator="op", slots={"0001": SlotOwner("pod-0")})
GIVEN = Profile(keys=KEYS, pod="pod-0", pod_uid="u", host="h", address="10.0.0.1", nproc=1, lease_ttl_s=6.0, slot=1)


async def enter(store: MemoryStore, profile: Profile, *, second_s: float) -> Stay | None:
    """Enter with a clock that goes on by `second_s` at each look."""
    clock = itertools.count(0.0, second_s)
    entrance = Entrance(etcd=MemoryEtcd(store), profile=profile, clock=lambda: next(clock), draw=lambda: "0000000a")
    return await entrance.enter(master_port=1, timeout_s=600.0, give_up=lambda: False)


async def test_who_comes_into_a_wiped_etcd_before_the_operator_has_told_it_the_job_waits_and_enters() -> None:
    store = MemoryStore()
    entering = asyncio.create_task(enter(store, GIVEN, second_s=0.01))
    await asyncio.sleep(0)  # it has looked once
    assert store.range(KEYS.nodes).kvs == ()
    store.txn(Txn((), (Put(KEYS.spec, records.encode(SPEC)),)))
    stay = await entering
    assert stay is not None
    await stay.close()
    assert [kv.key for kv in store.range(KEYS.nodes).kvs] == [KEYS.node(1, "0000000a")]


async def test_a_job_that_stays_without_a_spec_was_deleted_and_nothing_of_this_node_was_written() -> None:
    store = MemoryStore()
    with pytest.raises(NothingWanted, match="nothing is wanted under /elasticjob/test"):
        await enter(store, GIVEN, second_s=SPEC_S)
    assert store.range(KEYS.all).kvs == ()
