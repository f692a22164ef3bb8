"""A new operator with an etcd that hostile jobs have filled: its memory is bounded, and other jobs are complete."""

import asyncio
import json
from collections.abc import AsyncIterator
from uuid import uuid4

import pytest

from elasticjob_api.records import encode
from elasticjob_etcd.client import EtcdClient
from elasticjob_etcd.interface import Delete, Put, Txn
from elasticjob_operator.informers.rendezvous_informer import RendezvousInformer
from elasticjob_operator.model.job_key import JobKey
from elasticjob_operator.policy.etcd.quota import MIB, MIN_MEMORY, allowed_bytes
from testing import builders
from testing.waiting import aeventually

pytestmark = pytest.mark.etcd

HONEST, HOSTILE = JobKey("n", "j", "honest"), [JobKey("n", f"k{number}", "hostile") for number in range(3)]
WORKERS = [{"rank": 0, "state": "HEALTHY"}] * 2100
REPORT = json.dumps({"v": 1, "pod": "p", "podUid": "u", "round": 0, "workers": WORKERS}, separators=(",", ":")).encode()
EACH = 58 * MIB
"""Bytes of a job: less than it may store in etcd."""


@pytest.fixture
async def cluster(etcd: EtcdClient) -> AsyncIterator[str]:
    """Write the keys of three hostile jobs of one node and of an honest one."""
    made = uuid4().hex
    for key in HOSTILE:
        keys = key.keys(made)
        for first in range(0, EACH // len(REPORT), 16):
            puts = (Put(keys.report(slot, "00000000"), REPORT) for slot in range(first, first + 16))
            await etcd.txn(Txn((), tuple(puts)))
    keys = HONEST.keys(made)
    nodes = [Put(keys.node(slot, "00000001"), encode(builders.node(slot).record)) for slot in range(50)]
    await etcd.txn(Txn((), (Put(keys.spec, encode(builders.record(*range(50)))), *nodes)))
    yield made
    await etcd.txn(Txn((), (Delete(f"/elasticjob/{made}/", prefix=True),)))


async def test_a_new_operator_caches_little_of_hostile_jobs(etcd: EtcdClient, cluster: str) -> None:
    sizes = {HONEST: allowed_bytes(50, 8), **dict.fromkeys(HOSTILE, allowed_bytes(1, 1))}
    view = RendezvousInformer(etcd, cluster, on_change=lambda _: None, on_listed=lambda: None, allowed=sizes.get)
    following = asyncio.create_task(view.run())
    try:
        await aeventually(lambda: view.listed, within_s=60)
        kept = sum(len(kv.key) + len(kv.value) for kv in view._mirror.items.values())  # the memory is the subject
        assert kept < MIN_MEMORY
        assert kept < 3 * EACH // 10
        assert all("of the operator's memory" in view.view(key).quota_violation for key in HOSTILE)
        assert len(view.view(HONEST).nodes) == 50
        assert view.view(HONEST).quota_violation == ""
    finally:
        following.cancel()
        await asyncio.wait({following})
