"""Limits for the connections of one job's certificate to etcd, and for connections without identification.

The numbers are small here; those of an installation are in docs/etcd.md.
"""

import asyncio
import contextlib
import resource
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from elasticjob_etcd.client import EtcdClient
from elasticjob_etcd.errors import Unavailable
from elasticjob_etcd.interface import Endpoint
from testing.servers.secured_etcd import ADDRESS, SecuredEtcd
from testing.waiting import aeventually
from tests.integration.security.conftest import Job

pytestmark = pytest.mark.etcd

CONNECTIONS = 20
PER_ADDRESS = 32
"""The addition for the single address of these tests, as images/etcd/limits computes it."""
ALLOWED = CONNECTIONS + PER_ADDRESS
NAMELESS = 1_024
"""The limit for one address, as images/etcd/limits sets it."""
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0"


@pytest.fixture(scope="module")
def secured(etcd_program: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredEtcd]:
    """Return an etcd with a small limit, in place of the one without."""
    environment = {"ELASTICJOB_ETCD_MAX_CONNECTIONS": str(CONNECTIONS)}
    made = SecuredEtcd(tmp_path_factory.mktemp("limited"), etcd_program, environment=environment)
    yield made
    made.kill()


def context_of(endpoint: Endpoint) -> ssl.SSLContext:
    """Return a TLS context with this certificate."""
    assert endpoint.ca_cert
    assert endpoint.cert
    made = ssl.create_default_context(cafile=endpoint.ca_cert)
    made.load_cert_chain(Path(endpoint.cert), endpoint.key)
    made.set_alpn_protocols(["h2"])
    return made


class Idle:
    """Idle TLS connections; those that etcd answers with its first frame count as open."""

    def __init__(self, etcd: SecuredEtcd, endpoint: Endpoint) -> None:
        self._port = etcd.port
        self._context = context_of(endpoint)
        self._open: list[asyncio.StreamWriter] = []

    async def open(self, number: int) -> int:
        """Open that many more; return how many remain open."""
        return sum([await self._dial() for _ in range(number)])

    async def _dial(self) -> bool:
        async with asyncio.timeout(60):
            try:
                reader, writer = await asyncio.open_connection(ADDRESS, self._port, ssl=self._context)
                self._open.append(writer)
                writer.write(_PREFACE)
                return len(await reader.read(1)) == 1
            except OSError:
                return False

    def close(self, number: int | None = None) -> None:
        """Close that many, or all."""
        count = len(self._open) if number is None else number
        for writer in self._open[:count]:
            writer.transport.abort()
        del self._open[:count]


@pytest.fixture
def room_for_files() -> Iterator[None]:
    """Raise the limit of open files to the most that this process may have."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 2 * NAMELESS)), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@contextlib.contextmanager
def idle(etcd: SecuredEtcd, endpoint: Endpoint) -> Iterator[Idle]:
    """Provide idle connections, and close all of them afterwards."""
    made = Idle(etcd, endpoint)
    try:
        yield made
    finally:
        made.close()


async def test_idle_connections_of_a_job_stay_within_the_limit_and_do_not_affect_another_job(
    secured: SecuredEtcd, attacker: Job, victim: Job
) -> None:
    with idle(secured, attacker.endpoint) as first, idle(secured, victim.endpoint) as other:
        assert await first.open(ALLOWED + 20) == ALLOWED
        assert await other.open(5) == 5
        assert await victim.etcd.get(f"{victim.keys.everything}x") is None


async def test_a_closed_connection_frees_a_place(secured: SecuredEtcd, attacker: Job) -> None:
    with idle(secured, attacker.endpoint) as held:
        assert await held.open(ALLOWED + 1) == ALLOWED
        with pytest.raises(Unavailable):
            await attacker.etcd.get(f"{attacker.keys.everything}x")
        held.close(10)

        async def answered() -> Any:
            with contextlib.suppress(Unavailable):
                return await attacker.etcd.get(f"{attacker.keys.everything}x") is None
            return False

        await aeventually(answered, within_s=60, what="an answer for the job when connections have ended")
        assert await held.open(20) == 9


async def test_refusals_are_in_etcds_log(secured: SecuredEtcd, attacker: Job) -> None:
    with idle(secured, attacker.endpoint) as held:
        await held.open(ALLOWED + 5)
    lines = [line for line in secured.log.splitlines() if attacker.uid in line and "refused a request" in line]
    assert len(lines) == 1
    assert "etcd.limits.connections" in lines[0]


async def test_the_operators_connections_are_not_limited(secured: SecuredEtcd, root: EtcdClient) -> None:
    with idle(secured, root.endpoint) as held:
        assert await held.open(ALLOWED + 20) == ALLOWED + 20


@pytest.mark.usefixtures("room_for_files")
async def test_connections_without_identification_are_limited_and_keep_no_client_out(
    secured: SecuredEtcd, victim: Job
) -> None:
    """The oldest are closed at once, not when their time is over."""
    loop = asyncio.get_running_loop()
    async with contextlib.AsyncExitStack() as stack:
        silent = []
        for _ in range(NAMELESS + 50):
            made = stack.enter_context(socket.create_connection((ADDRESS, secured.port)))
            made.setblocking(False)
            silent.append(made)
        async with asyncio.timeout(5):
            with contextlib.suppress(ConnectionResetError):
                assert await loop.sock_recv(silent[0], 1) == b""
        with idle(secured, victim.endpoint) as other:
            assert await other.open(5) == 5


async def test_a_handshake_times_out_after_ten_seconds(secured: SecuredEtcd) -> None:
    with socket.create_connection((ADDRESS, secured.port)) as silent:
        silent.setblocking(False)
        async with asyncio.timeout(60):
            with contextlib.suppress(ConnectionResetError):
                assert await asyncio.get_running_loop().sock_recv(silent, 1) == b""
