"""A member group over the in-memory store, and the same over a real etcd."""

from collections.abc import AsyncIterator, Callable

import pytest

from elasticjob_api.records import SpecRecord
from elasticjob_etcd.client import EtcdClient
from elasticjob_etcd.interface import Etcd
from elasticjob_etcd.memory.client import InMemoryEtcd, InMemoryStore
from tests.integration.rendezvous.member_group import MemberGroup

MakeGroup = Callable[..., MemberGroup]


@pytest.fixture(params=[pytest.param("memory"), pytest.param("etcd", marks=pytest.mark.etcd)])
def connect(request: pytest.FixtureRequest) -> Callable[[], Etcd]:
    """Return a function that connects a client to the store under test; each test has its own store."""
    if request.param == "memory":
        store = InMemoryStore(min_ttl_s=1.0)
        return lambda: InMemoryEtcd(store)
    endpoint = request.getfixturevalue("etcd_server").endpoint
    return lambda: EtcdClient(endpoint)


@pytest.fixture
async def make_group(connect: Callable[[], Etcd], prefix: str) -> AsyncIterator[MakeGroup]:
    """Return `make_group(min, max, **spec)`, which makes a member group; it is closed at the end."""
    made: list[MemberGroup] = []

    def make(least: int, most: int, *, max_restarts: int = 3, keep_copies: int | None = None) -> MemberGroup:
        spec = SpecRecord(
            min=least,
            max=most,
            desired=most,
            max_restarts=max_restarts,
            scale_up_delay_s=1.0,
            keep_copies=keep_copies,
        )
        made.append(MemberGroup(connect, prefix, spec))
        return made[-1]

    yield make
    for group in made:
        await group.close()
