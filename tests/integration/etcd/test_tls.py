"""Certificates against a real etcd that requires them: accepted clients, and the side that an error names.

etcd makes the certificates itself: one for clients and one for peers, each its own authority, for servers only.
"""

import asyncio
import contextlib
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from elasticjob_etcd.binary import find_binary
from elasticjob_etcd.client import EtcdClient
from elasticjob_etcd.errors import EtcdError, RequestRejected, Unavailable
from elasticjob_etcd.interface import Endpoint
from testing.network.ports import unused_port
from testing.waiting import eventually

pytestmark = pytest.mark.etcd

ADDRESS = "127.0.0.1"
PEER = "https://127.0.0.4:0"


@contextlib.contextmanager
def etcd_process(folder: Path, port: int, *flags: str) -> Iterator[None]:
    client = f"https://{ADDRESS}:{port}"
    command = [
        str(find_binary()),
        f"--data-dir={folder / 'data'}",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={PEER}",
        f"--initial-advertise-peer-urls={PEER}",
        f"--initial-cluster=default={PEER}",
        "--peer-auto-tls",
        "--heartbeat-interval=30",
        "--election-timeout=150",
        *flags,
    ]
    with (folder / "log").open("wb") as log, subprocess.Popen(command, stdout=log, stderr=log) as process:
        try:
            yield
        finally:
            process.kill()


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Endpoint]:
    """An etcd with TLS for all clients, with a certificate of its own making for 127.0.0.1."""
    folder, port = tmp_path_factory.mktemp("secure"), unused_port()
    certificate, key = (folder / "data" / "fixtures" / "client" / name for name in ("cert.pem", "key.pem"))
    with etcd_process(folder, port, "--auto-tls"):
        eventually(lambda: key.exists() and key.stat().st_size, what="certificate of etcd")
        yield Endpoint((f"{ADDRESS}:{port}",), ca_cert=str(certificate))


@pytest.fixture(scope="module")
def demanding(secure: Endpoint, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Endpoint]:
    """An etcd known by the same certificate that wants one of its clients too."""
    certificate = Path(str(secure.ca_cert))
    flags = (f"--cert-file={certificate}", f"--key-file={certificate.with_name('key.pem')}", "--client-cert-auth")
    port = unused_port()
    with etcd_process(tmp_path_factory.mktemp("demanding"), port, *flags, f"--trusted-ca-file={certificate}"):
        yield replace(secure, targets=(f"{ADDRESS}:{port}",))


async def verdict(endpoint: Endpoint) -> EtcdError | None:
    client = EtcdClient(endpoint)
    try:
        await client.get("a")
    except EtcdError as error:
        return error
    finally:
        await client.close()
    return None


async def settled(endpoint: Endpoint) -> EtcdError | None:
    """The verdict once etcd has started."""
    async with asyncio.timeout(60):
        while True:
            error = await verdict(endpoint)
            if not isinstance(error, Unavailable):
                return error
            await asyncio.sleep(0.01)


def peer_certificate(endpoint: Endpoint) -> str:
    return str(endpoint.ca_cert).replace("/client/", "/peer/")


async def test_etcd_is_trusted_by_its_certificate_at_one_address_and_at_several(secure: Endpoint) -> None:
    assert await settled(secure) is None
    assert await settled(replace(secure, targets=secure.targets * 2)) is None


async def test_a_certificate_of_another_authority_is_refused_by_us(secure: Endpoint) -> None:
    error = await settled(replace(secure, ca_cert=peer_certificate(secure)))
    assert isinstance(error, RequestRejected)
    assert "we do not trust the certificate of etcd (see ca_cert)" in str(error)


async def test_a_certificate_for_another_host_name_is_refused_by_us(secure: Endpoint) -> None:
    error = await settled(replace(secure, targets=(secure.targets[0].replace(ADDRESS, "localhost"),)))
    assert isinstance(error, RequestRejected)
    assert "the certificate of etcd is for another host name" in str(error)


async def test_a_client_without_a_certificate_is_refused_by_etcd(demanding: Endpoint) -> None:
    error = await settled(demanding)
    assert isinstance(error, RequestRejected)
    assert "etcd refused our certificate, or misses one" in str(error)


async def test_a_key_of_another_certificate_is_refused_before_anything_is_sent(secure: Endpoint) -> None:
    own_key = str(secure.ca_cert).replace("cert.pem", "key.pem")
    error = await settled(replace(secure, cert=peer_certificate(secure), key=own_key))
    assert isinstance(error, RequestRejected)
    assert "key is not that of cert" in str(error)


async def test_plaintext_where_etcd_speaks_tls_gets_no_answer(secure: Endpoint) -> None:
    assert await settled(secure) is None
    assert isinstance(await verdict(Endpoint(secure.targets)), Unavailable)
