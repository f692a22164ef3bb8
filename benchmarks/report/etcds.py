"""etcd for measurements: the embedded one as it is, or one that requires client certificates (mutual TLS).

Keys are ECDSA P-256, as the operator's. Each measurement has its own server, so it has no history of others.
"""

import asyncio
import contextlib
import ipaddress
import os
import socket
import subprocess
import tempfile
import urllib.request
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from elasticjob_etcd.binary import find_binary
from elasticjob_etcd.client import EtcdClient
from elasticjob_etcd.embedded import EmbeddedEtcd
from elasticjob_etcd.errors import EtcdError
from elasticjob_etcd.interface import Endpoint

_HOST = "127.0.0.1"
_START_S = 30.0
_DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # ignores the proxies of the environment


@dataclass(frozen=True, slots=True)
class Server:
    """A running etcd."""

    endpoint: Endpoint
    pid: int
    folder: Path


def version() -> str:
    """Return the version of the measured binary."""
    output = subprocess.run([find_binary(), "--version"], capture_output=True, text=True, check=True).stdout
    return output.splitlines()[0].rpartition(" ")[2]


def counters(server: Server) -> dict[str, float]:
    """Return etcd's own counters, by the name and labels of its metrics; only without TLS."""
    with _DIRECT.open(f"http://{server.endpoint.targets[0]}/metrics", timeout=10) as answer:
        lines = [line for line in answer.read().decode().splitlines() if not line.startswith("#")]
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}


def messages(server: Server) -> "Counter[str]":
    """Return the messages of clients so far, by method; those of a stream one by one."""
    found: Counter[str] = Counter()
    for name, value in counters(server).items():
        if name.startswith("grpc_server_msg_received_total{"):
            found[name.partition('grpc_method="')[2].partition('"')[0]] += int(value)
    return found


@contextlib.contextmanager
def etcd(*, secure: bool = False) -> Iterator[Server]:
    """Start a server of one's own, in a folder that is removed with it."""
    with tempfile.TemporaryDirectory(prefix="elasticjob-bench-") as name, _started(Path(name), secure=secure) as server:
        yield server


@contextlib.contextmanager
def _started(folder: Path, *, secure: bool) -> Iterator[Server]:
    if secure:
        with _secure(folder) as server:
            yield server
        return
    embedded = asyncio.run(EmbeddedEtcd.start(folder / "etcd", client_port=0, timeout_s=_START_S))
    try:
        yield Server(embedded.endpoint, embedded.pid, folder)
    finally:
        embedded.kill()


@contextlib.contextmanager
def _secure(folder: Path) -> Iterator[Server]:
    _write_certificates(folder)
    with socket.create_server((_HOST, 0)) as probe:
        port = probe.getsockname()[1]
    client, peer = f"https://{_HOST}:{port}", "http://127.0.0.2:0"
    flags = {
        "data-dir": folder / "data",
        "listen-client-urls": client,
        "advertise-client-urls": client,
        "listen-peer-urls": peer,
        "initial-advertise-peer-urls": peer,
        "initial-cluster": f"default={peer}",
        "heartbeat-interval": 30,
        "election-timeout": 150,
        "client-cert-auth": "true",
        "trusted-ca-file": folder / "ca.pem",
        "cert-file": folder / "server.pem",
        "key-file": folder / "server.key",
    }
    command = [str(find_binary()), "--unsafe-no-fsync", *(f"--{name}={value}" for name, value in flags.items())]
    authority, certificate, key = (str(folder / name) for name in ("ca.pem", "client.pem", "client.key"))
    endpoint = Endpoint((f"{_HOST}:{port}",), ca_cert=authority, cert=certificate, key=key)
    # All members have one address here, and in a cluster one each, which adds to a job's allowance.
    allowed = {f"ELASTICJOB_ETCD_MAX_{what}": "100000" for what in ("STREAMS", "WATCHES", "CONNECTIONS")}
    with (
        (folder / "log").open("wb") as log,
        subprocess.Popen(command, env={**os.environ, **allowed}, stdout=log, stderr=log) as process,
    ):
        try:
            asyncio.run(_until_it_answers(endpoint))
            yield Server(endpoint, process.pid, folder)
        finally:
            process.kill()


async def _until_it_answers(endpoint: Endpoint) -> None:
    client = EtcdClient(endpoint)
    try:
        async with asyncio.timeout(_START_S):
            while True:
                with contextlib.suppress(EtcdError):
                    await client.get("health")
                    return
                await asyncio.sleep(0.05)
    finally:
        await client.close()


def _write_certificates(folder: Path) -> None:
    authority = ec.generate_private_key(ec.SECP256R1())
    root = _certificate("benchmark", authority, None, issuer="benchmark", signer=authority)
    (folder / "ca.pem").write_bytes(root.public_bytes(serialization.Encoding.PEM))
    for name, use in (("server", ExtendedKeyUsageOID.SERVER_AUTH), ("client", ExtendedKeyUsageOID.CLIENT_AUTH)):
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = _certificate(name, key, use, issuer="benchmark", signer=authority)
        (folder / f"{name}.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        form = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        (folder / f"{name}.key").write_bytes(key.private_bytes(serialization.Encoding.PEM, *form))


def _certificate(
    name: str,
    key: ec.EllipticCurvePrivateKey,
    use: x509.ObjectIdentifier | None,
    *,
    issuer: str,
    signer: ec.EllipticCurvePrivateKey,
) -> x509.Certificate:
    """Return a certificate for a day; without a `use` it is the authority's."""
    now = datetime.now(UTC)
    address = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(_HOST))])
    builder = (
        x509.CertificateBuilder()
        .subject_name(_named(name))
        .issuer_name(_named(issuer))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=use is None, path_length=None), critical=True)
        .add_extension(address, critical=False)
    )
    if use is not None:
        builder = builder.add_extension(x509.ExtendedKeyUsage([use]), critical=False)
    return builder.sign(signer, hashes.SHA256())


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
