"""What integration tests share: one real etcd for the session, a client of it, a prefix of one's own.

The server is shared, so a test keeps to its `prefix` and neither compacts, stops nor wipes it; who needs that
starts an `EtcdServer` of its own.
"""

import asyncio
import signal
import uuid
from collections.abc import AsyncIterator, Iterator

import pytest

from elasticjob_etcd.client import EtcdClient
from elasticjob_etcd.server import EtcdServer

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a shell's background job, and what it starts, would ignore it
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def etcd_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdServer]:
    """A real etcd; `.endpoint` says where."""
    server = asyncio.run(EtcdServer.start(tmp_path_factory.mktemp("etcd"), timeout_s=60))
    yield server
    asyncio.run(server.stop())


@pytest.fixture
async def etcd(etcd_server: EtcdServer) -> AsyncIterator[EtcdClient]:
    """A client of the shared etcd."""
    client = EtcdClient(etcd_server.endpoint)
    yield client
    await client.close()


@pytest.fixture
def prefix() -> str:
    """A prefix that no other test has."""
    return f"/test/{uuid.uuid4().hex}/"
