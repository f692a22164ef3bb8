"""A node that is cut off from etcd for longer than the job allows leaves by itself; any other node stays."""

import asyncio
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from elasticjob_agent.node.self_fencing import SelfFencing
from elasticjob_agent.rendezvous.member.rendezvous_member import RendezvousMember
from elasticjob_api.keys import Keys
from elasticjob_api.records import SpecRecord
from elasticjob_api.runtime_config import runtime_config_of
from elasticjob_etcd.interface import KeyValue
from elasticjob_etcd.leases import LeaseKeeper
from elasticjob_etcd.memory.client import InMemoryEtcd, InMemoryStore
from testing.waiting import aeventually


class CountingEtcd(InMemoryEtcd):
    """Counts its reads."""

    reads = 0

    async def get(self, key: str) -> KeyValue | None:
        self.reads += 1
        return await super().get(key)


class Node:
    """The part of a member that `SelfFencing` uses; its lease is lost."""

    def __init__(self, grace_s: float | None) -> None:
        self.etcd = CountingEtcd(InMemoryStore())
        self.left = False
        self._grace_s = grace_s
        self.session: Any = None

    async def begin(self) -> None:
        keeper = LeaseKeeper(self.etcd, await self.etcd.lease_grant(6.0))
        keeper.lost.set()
        config = runtime_config_of(SpecRecord(min=1, max=1, desired=1, isolation_grace_s=self._grace_s))
        self.session = SimpleNamespace(keeper=keeper, runtime_config=config, me=SimpleNamespace(keys=Keys("/p")))

    def request_leave(self) -> None:
        self.left = True


@pytest.fixture
async def watched(request: pytest.FixtureRequest) -> AsyncIterator[Node]:
    """A node whose job allows the seconds of the parameter."""
    node = Node(request.param)
    await node.begin()
    watch = asyncio.create_task(SelfFencing(node.etcd, cast("RendezvousMember", node)).run())
    yield node
    watch.cancel()
    await asyncio.wait({watch})
    await node.session.keeper.close()


@pytest.mark.parametrize("watched", [0.0, 6.0], indirect=True)
async def test_a_node_that_is_isolated_for_too_long_leaves(watched: Node) -> None:
    watched.etcd.disconnect()
    await aeventually(lambda: watched.left, within_s=30, what="it leaves")


@pytest.mark.parametrize("watched", [0.0], indirect=True)
async def test_a_node_does_not_leave_while_etcd_answers(watched: Node) -> None:
    await aeventually(lambda: watched.etcd.reads >= 2, within_s=30, what="two reads")
    assert not watched.left


@pytest.mark.parametrize("watched", [None, 3600.0], indirect=True)
async def test_etcd_is_not_asked_before_the_grace_is_over(watched: Node) -> None:
    watched.etcd.disconnect()
    for _ in range(20):
        await asyncio.sleep(0)
    assert (watched.etcd.reads, watched.left) == (0, False)
