"""A member whose link to the leader ends: a leader that is gone is evicted, one that has resigned is not named."""

import asyncio
import logging
import random
import socket

import pytest

from elasticjob_agent.rendezvous.member.leader_monitor import LeaderMonitor
from elasticjob_agent.rendezvous.protocol.link_handshake import Hello
from elasticjob_agent.rendezvous.protocol.transactions import SessionIdentity
from elasticjob_agent.tracing import Tracer
from elasticjob_api.keys import Keys
from elasticjob_api.rendezvous_state import Leader, Member, encode_leader
from elasticjob_etcd.interface import Put, Txn
from elasticjob_etcd.memory.client import InMemoryEtcd
from elasticjob_etcd.memory.store import InMemoryStore

KEYS = Keys("/elasticjob/test")
LEADER, ME = Member(0, "0000000a"), Member(1, "0000000b")


async def end_the_link(store: InMemoryStore, leader: Leader, lease: int) -> None:
    """Let a member learn that its link to the leader, which listens no more, has ended; return after its probe."""
    me = SessionIdentity(KEYS, ME, store.grant(60.0).id)
    store.txn(Txn((), (Put(me.node_key, b"{}", me.lease),)))
    rng = random.Random(1)
    monitor = LeaderMonitor(
        etcd=InMemoryEtcd(store), random_hex=lambda: f"{rng.getrandbits(32):08x}", trace=Tracer(None, "")
    )
    monitor.update(me, leader, lease, b"k" * 32)
    monitor.link_ended(Hello(KEYS.prefix, LEADER, "0" * 16))
    probes = [task for task in asyncio.all_tasks() if task.get_name() == "probe of the leader"]
    await asyncio.wait_for(asyncio.gather(*probes), timeout=20.0)
    assert len(probes) == 1
    await monitor.close()


@pytest.mark.parametrize("has_resigned", [False, True])
async def test_only_a_leader_that_still_leads_is_logged_as_evicted(
    caplog: pytest.LogCaptureFixture, *, has_resigned: bool
) -> None:
    store = InMemoryStore()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        leader, lease = Leader(LEADER, f"127.0.0.1:{listener.getsockname()[1]}"), store.grant(60.0).id
    if not has_resigned:
        store.txn(Txn((), (Put(KEYS.leader, encode_leader(leader), lease),)))
    with caplog.at_level(logging.WARNING):
        await end_the_link(store, leader, lease)
    expected = [] if has_resigned else ["the leader, slot 0 (0000000a), is gone: it is evicted"]
    assert caplog.messages == expected
    assert bool(store.range(KEYS.tombstone(0, "0000000a")).kvs) is not has_resigned
