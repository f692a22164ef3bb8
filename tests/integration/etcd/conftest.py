"""The stores that the contract is held against: the in-memory one, etcd 3.5.1 and, where one is found, etcd 3.6."""

import asyncio
import os
import re
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import grpc.aio
import pytest

from elasticjob_etcd.client import EtcdClient
from elasticjob_etcd.embedded import EmbeddedEtcd
from elasticjob_etcd.interface import Endpoint, Etcd
from elasticjob_etcd.memory.client import InMemoryEtcd, InMemoryStore
from elasticjob_etcd.messages import rpc
from tests.integration.etcd.site import EtcdSite

Compact = Callable[[int], Awaitable[None]]


class Backend:
    """One store under test: connect as often as needed, compact it."""

    def __init__(self, connect: Callable[[], Etcd], compact: Compact) -> None:
        self._connect = connect
        self.compact = compact
        self._clients: list[Etcd] = []

    def connect(self) -> Etcd:
        """One more client of the store."""
        self._clients.append(self._connect())
        return self._clients[-1]

    async def close(self) -> None:
        for client in self._clients:
            await client.close()


async def compact(endpoint: Endpoint, revision: int) -> None:
    """Compact a real etcd, which no client of ours can."""
    async with grpc.aio.insecure_channel(endpoint.targets[0]) as channel:
        await rpc.KVStub(channel).Compact(rpc.CompactionRequest(revision=revision, physical=True), timeout=5.0)


def newer_binary() -> Path | None:
    """An etcd of 3.6 or later in the project's cache."""
    cache = Path(os.environ.get("ELASTICJOB_CACHE", "~/.cache/elasticjob")).expanduser()
    binary = cache / "bin" / "etcd"
    if not binary.is_file():
        return None
    output = subprocess.run([binary, "--version"], capture_output=True, text=True, check=True).stdout
    version = re.search(r"etcd Version: (\d+)\.(\d+)", output)
    return binary if version and (int(version[1]), int(version[2])) >= (3, 6) else None


@pytest.fixture(scope="session")
def newer_etcd_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedEtcd]:
    """A real etcd of 3.6 or later, shared."""
    binary = newer_binary()
    if binary is None:
        pytest.skip("no etcd >= 3.6 in ${ELASTICJOB_CACHE:-~/.cache/elasticjob}/bin")
    server = asyncio.run(
        EmbeddedEtcd.start(tmp_path_factory.mktemp("etcd"), client_port=0, binary=binary, timeout_s=60)
    )
    yield server
    asyncio.run(server.stop())


def _memory_backend() -> Backend:
    store = InMemoryStore(min_ttl_s=1.0)

    async def compact_memory(revision: int) -> None:
        store.compact(revision)

    return Backend(lambda: InMemoryEtcd(store), compact_memory)


def _real_backend(server: EmbeddedEtcd) -> Backend:
    return Backend(lambda: EtcdClient(server.endpoint), lambda revision: compact(server.endpoint, revision))


REAL = {"3.5": "etcd_server", "3.6": "newer_etcd_server"}


@pytest.fixture(params=["memory", *(pytest.param(version, marks=pytest.mark.etcd) for version in REAL)])
def server_under_test(request: pytest.FixtureRequest) -> EmbeddedEtcd | None:
    """The server of each real store in turn; None for the in-memory one."""
    name = REAL.get(request.param)
    server: EmbeddedEtcd | None = request.getfixturevalue(name) if name else None
    return server


@pytest.fixture
async def backend(server_under_test: EmbeddedEtcd | None) -> AsyncIterator[Backend]:
    """Each store in turn."""
    backend = _real_backend(server_under_test) if server_under_test else _memory_backend()
    yield backend
    await backend.close()


@pytest.fixture
def store(backend: Backend) -> Etcd:
    """A client of each store in turn."""
    return backend.connect()


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[EtcdSite]:
    site = EtcdSite(tmp_path)
    await site.start(port=0)
    yield site
    await site.server.stop()


@pytest.fixture
async def client(site: EtcdSite) -> AsyncIterator[EtcdClient]:
    client = site.client()
    yield client
    await client.close()
