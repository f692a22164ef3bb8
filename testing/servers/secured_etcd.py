"""An etcd as the chart installs it with `etcd.tls`: TLS, certificates of clients, authentication; and its authority.

It is the exact version that the chart names, which `hack/rendezvous-etcd` finds or builds: an older one does not
isolate its users. A test gets a certificate for any user; files are replaced as a kubelet replaces them.
"""

import asyncio
import contextlib
import functools
import os
import shutil
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import grpc.aio

from elasticjob_etcd import auth_bootstrap, die_with_parent
from elasticjob_etcd.auth import ROOT
from elasticjob_etcd.channel import open_channel
from elasticjob_etcd.client import EtcdClient
from elasticjob_etcd.errors import Unavailable
from elasticjob_etcd.interface import Endpoint
from elasticjob_operator.tls.ca import CertificateAuthority, Issued
from testing.waiting import scaled

ADDRESS = "127.0.0.1"
_PROGRAM = Path(__file__).resolve().parents[2] / "hack" / "rendezvous-etcd"
_BUILD_S = 900.0
_START_S = 60.0
_PAUSE_S = 0.05


@functools.cache
def program() -> str:
    """Return the path of that etcd."""
    found = subprocess.run([_PROGRAM], stdout=subprocess.PIPE, text=True, check=True, timeout=scaled(_BUILD_S)).stdout
    return found.strip()


def write(folder: Path, issued: Issued, trusted: bytes) -> None:
    """Write the three files, each atomically, the certificate last: a watcher of it sees all of them."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in (("ca.crt", trusted), ("tls.key", issued.key), ("tls.crt", issued.certificate)):
        (folder / "aside").write_bytes(text)
        (folder / "aside").replace(folder / name)


@dataclass
class SecuredEtcd:
    """One member that requires certificates; it always uses the same port again."""

    folder: Path
    program: str
    ca: CertificateAuthority = field(default_factory=lambda: CertificateAuthority.create(now_s=time.time()))
    environment: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        server = self.ca.issue_server([ADDRESS], now_s=time.time(), life_s=3600)
        write(self.folder / "server", server, self.ca.trusted)
        with socket.create_server((ADDRESS, 0)) as taken:
            self.port = int(taken.getsockname()[1])
        self.start()

    @property
    def log(self) -> str:
        """Return its whole log."""
        return (self.folder / "log").read_text(errors="replace")

    @property
    def pid(self) -> int:
        """Return the pid of etcd itself."""
        return self._process.pid

    def issue_certificate(
        self, name: str, *, life_s: float = 3600.0, authority: CertificateAuthority | None = None
    ) -> Endpoint:
        """Return an endpoint with a certificate with this name as CN; again: a new one in the same files."""
        by = authority or self.ca
        folder = self.folder / "clients" / name
        write(folder, by.issue_client(name, now_s=time.time(), life_s=life_s), self.ca.trusted)
        return self.endpoint(folder)

    def endpoint(self, folder: Path) -> Endpoint:
        """Return an endpoint with the certificate in `folder`."""
        ca_cert, cert, key = (str(folder / name) for name in ("ca.crt", "tls.crt", "tls.key"))
        return Endpoint((f"{ADDRESS}:{self.port}",), ca_cert=ca_cert, cert=cert, key=key)

    def start(self) -> None:
        """Start it as etcd's pod does: authentication is enabled in its data before the port opens."""
        data = self._data_flags()
        if not (self.folder / "data").exists():
            line = [sys.executable, "-m", auth_bootstrap.__name__, "--", self.program, *data]
            with (self.folder / "log").open("ab") as log:
                subprocess.run(line, cwd=self.folder, stdout=log, stderr=log, check=True, timeout=scaled(_START_S))
        self._serve([*data, *self._client_flags()])

    def _data_flags(self) -> list[str]:
        peer = "http://127.0.0.1:0"
        options = {
            "data-dir": self.folder / "data",
            "advertise-client-urls": f"https://{ADDRESS}:{self.port}",
            "listen-peer-urls": peer,
            "initial-advertise-peer-urls": peer,
            "initial-cluster": f"default={peer}",
            "initial-cluster-token": uuid.uuid4().hex,  # an empty one is another cluster
            "heartbeat-interval": 30,
            "election-timeout": 150,
        }
        return [*(f"--{name}={value}" for name, value in options.items()), "--unsafe-no-fsync"]

    def _client_flags(self) -> list[str]:
        files = self.folder / "server"
        options = {
            "listen-client-urls": f"https://{ADDRESS}:{self.port}",
            "trusted-ca-file": files / "ca.crt",
            "cert-file": files / "tls.crt",
            "key-file": files / "tls.key",
        }
        given = (f"--{name}={value}" for name, value in options.items())
        return [*given, "--client-cert-auth", "--enable-grpc-gateway=false"]

    def _serve(self, flags: list[str]) -> None:
        command = [sys.executable, "-I", "-S", str(die_with_parent.__file__), str(os.getpid()), self.program, *flags]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                command,
                cwd=self.folder,
                env={**os.environ, **self.environment},
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def wipe(self) -> None:
        """Restart it empty, at the same address: no key, and no user but root."""
        self.kill()
        shutil.rmtree(self.folder / "data")
        self.start()

    def wait(self, *, within_s: float) -> int:
        """Return its exit code when it ends by itself."""
        return self._process.wait(within_s)

    def kill(self) -> None:
        """SIGKILL."""
        self._process.kill()
        self._process.wait()


async def await_answers(client: EtcdClient) -> None:
    """Wait until etcd answers."""
    async with asyncio.timeout(_START_S):
        while True:
            with contextlib.suppress(Unavailable):
                await client.get("health")
                return
            await asyncio.sleep(_PAUSE_S)


@contextlib.asynccontextmanager
async def administrator(etcd: SecuredEtcd) -> AsyncIterator[EtcdClient]:
    """A client that may do anything; authentication is enabled."""
    client = EtcdClient(etcd.issue_certificate(ROOT))
    try:
        await await_answers(client)
        await client.auth.enable([])
        yield client
    finally:
        await client.close()


@contextlib.asynccontextmanager
async def bare_channel(endpoint: Endpoint) -> AsyncIterator[grpc.aio.Channel]:
    """A channel for calls that no client of ours makes."""
    channel = open_channel(endpoint)
    try:
        yield channel
    finally:
        await channel.close(None)
