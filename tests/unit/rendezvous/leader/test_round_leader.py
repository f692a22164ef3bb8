"""The wait of the leader's loop: it ends, whatever happens at the moment of its cancellation."""

import asyncio

import pytest

from elasticjob_agent.rendezvous.leader.round_leader import COALESCE_S, MAX_COALESCE_S, RoundLeader, coalesce_s
from elasticjob_agent.rendezvous.protocol.transactions import SessionIdentity
from elasticjob_agent.tracing import Tracer
from elasticjob_api.keys import Keys
from elasticjob_api.records import SpecRecord, encode
from elasticjob_api.rendezvous_state import Member
from elasticjob_etcd.interface import Put, Txn
from elasticjob_etcd.memory.client import InMemoryEtcd, InMemoryStore

KEYS = Keys("/elasticjob/test")


@pytest.mark.parametrize("ticks", range(12))
async def test_a_cancelled_leader_ends_also_if_a_change_arrives_at_that_moment(ticks: int) -> None:
    store = InMemoryStore()
    etcd, other = InMemoryEtcd(store), InMemoryEtcd(store)
    me = SessionIdentity(KEYS, Member(0, "00000000"), 1)
    loop = RoundLeader(
        etcd=etcd, me=me, clock=asyncio.get_running_loop().time, random_hex=lambda: "0" * 8, trace=Tracer(None, "")
    )
    # It does not lead, so its write is refused, and it waits for the next change for a limited time.
    await other.txn(Txn((), (Put(KEYS.spec, encode(SpecRecord(min=1, max=1, desired=1))),)))
    task = asyncio.create_task(loop.run())
    for _ in range(50):
        await asyncio.sleep(0)
    await other.txn(Txn((), (Put(KEYS.expected, b"{}"),)))
    for _ in range(ticks):
        await asyncio.sleep(0)
    task.cancel()
    done, _ = await asyncio.wait([task], timeout=5)
    assert done, "it ignored its cancellation and continues"
    assert task.cancelled()


@pytest.mark.parametrize(
    ("planned_s", "gathered_s"), [(0.0, COALESCE_S), (0.001, COALESCE_S), (0.01, 0.02), (1.0, MAX_COALESCE_S)]
)
def test_changes_are_coalesced_for_longer_after_a_longer_plan_up_to_a_limit(
    planned_s: float, gathered_s: float
) -> None:
    assert coalesce_s(planned_s) == gathered_s
