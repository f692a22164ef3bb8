"""An etcd for one test, to be stalled, killed, filled and compacted; and three that elect a leader.

Requests that this project's clients do not offer (status, alarms, compaction) use its JSON gateway.
"""

import asyncio
import base64
import contextlib
import itertools
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil

from elasticjob_etcd import die_with_parent
from elasticjob_etcd.binary import find_binary
from elasticjob_etcd.embedded import EmbeddedEtcd
from elasticjob_etcd.interface import Endpoint
from testing.network.ports import unused_port
from testing.waiting import eventually

_HOST = "127.0.0.1"
_TIMEOUT_S = 60.0
_DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # ignores the proxies of the environment


def http_get(endpoint: str, path: str, **question: Any) -> dict[str, Any]:
    """Make one call to etcd's gateway and return its answer; raises URLError, HTTPError."""
    request = urllib.request.Request(f"http://{endpoint}/v3/{path}", json.dumps(question).encode())
    with _DIRECT.open(request, timeout=10) as answer:
        answered: dict[str, Any] = json.loads(answer.read())
    return answered


def b64(text: str) -> str:
    """Return a text as the gateway requires keys and values."""
    return base64.b64encode(text.encode()).decode()


class OwnEtcd:
    """One server in a folder; it always uses the same port again."""

    def __init__(self, folder: Path, flags: tuple[str, ...] = (), *, binary: str | None = None) -> None:
        """`flags` come after those of the embedded server, and override them; the default `binary` is pip's."""
        self._folder = folder
        found = shlex.quote(str(find_binary(binary)))
        behind = shlex.join(("--enable-grpc-gateway=true", *flags))
        self._binary = folder / "etcd-with-flags"
        self._binary.write_text(f'#!/bin/sh\nexec {found} "$@" {behind}\n')
        self._binary.chmod(0o755)
        self._server: EmbeddedEtcd
        self.start(port=unused_port())  # its gateway does not work at a port that the kernel chose

    @property
    def endpoint(self) -> str:
        """`host:port`."""
        return self._server.endpoint.targets[0]

    @property
    def where(self) -> Endpoint:
        """Return the same for a client."""
        return self._server.endpoint

    @property
    def port(self) -> int:
        """Return the port for clients."""
        return self._server.port

    def start(self, *, port: int | None = None) -> None:
        """Start it on the existing data."""
        where = self._server.port if port is None else port
        starting = EmbeddedEtcd.start(
            self._folder / "etcd", client_port=where, binary=self._binary, timeout_s=_TIMEOUT_S
        )
        self._server = asyncio.run(starting)

    def kill(self) -> None:
        """SIGKILL."""
        self._server.kill()

    def wipe(self) -> None:
        """Restart it empty, as another cluster."""
        self.kill()
        shutil.rmtree(self._folder / "etcd" / "data")
        self.start()

    @property
    def is_backed_up(self) -> bool:
        """Return whether there is a snapshot."""
        return self._snapshot.exists()

    def back_up(self) -> None:
        """Copy its current data; they replace the last snapshot."""
        self.forget_backup()
        with self.stalled():
            shutil.copytree(self._folder / "etcd" / "data", self._snapshot)

    def restore(self) -> None:
        """Restart it on the data of the snapshot."""
        self.kill()
        shutil.rmtree(self._folder / "etcd" / "data")
        shutil.copytree(self._snapshot, self._folder / "etcd" / "data")
        self.start()

    def forget_backup(self) -> None:
        """Delete the snapshot."""
        if self.is_backed_up:
            shutil.rmtree(self._snapshot)

    @property
    def _snapshot(self) -> Path:
        return self._folder / "snapshot"

    def stop(self) -> None:
        """The end."""
        asyncio.run(self._server.stop())

    def suspend(self) -> None:
        """Stop it with SIGSTOP: connections remain, nothing is answered."""
        _suspend(self._server.pid)

    def resume(self) -> None:
        """Continue it."""
        os.kill(self._server.pid, signal.SIGCONT)

    @contextlib.contextmanager
    def stalled(self) -> Iterator[None]:
        """Suspend it meanwhile."""
        self.suspend()
        try:
            yield
        finally:
            self.resume()

    def compact(self) -> None:
        """Compact every revision but the last."""
        revision = http_get(self.endpoint, "kv/range", key=b64("-"))["header"]["revision"]
        http_get(self.endpoint, "kv/compaction", revision=revision, physical=True)

    def fill(self) -> None:
        """Write until it rejects writes."""
        _fill(self.endpoint)

    def free_space(self) -> None:
        """Delete the data that filled it; that ends no alarm."""
        _free_space(self.endpoint)

    def clear(self) -> None:
        """Do an administrator's steps: delete, compact, defragment, end the alarm."""
        self.free_space()
        self.compact()
        http_get(self.endpoint, "maintenance/defragment")
        for alarm in http_get(self.endpoint, "maintenance/alarm", action="GET")["alarms"]:
            http_get(
                self.endpoint, "maintenance/alarm", action="DEACTIVATE", alarm="NOSPACE", memberID=alarm["memberID"]
            )


def _fill(endpoint: str) -> None:
    piece = b64("x" * 500_000)
    with contextlib.suppress(urllib.error.HTTPError):
        for number in itertools.count():
            http_get(endpoint, "kv/put", key=b64(f"filler/{number}"), value=piece)
    alarms = http_get(endpoint, "maintenance/alarm", action="GET")["alarms"]
    assert "NOSPACE" in [alarm["alarm"] for alarm in alarms], "it refused a write for another reason"


def _free_space(endpoint: str) -> None:
    http_get(endpoint, "kv/deleterange", key=b64("filler/"), range_end=b64("filler0"))


@contextlib.contextmanager
def own_etcd(folder: Path, *flags: str, binary: str | None = None) -> Iterator[OwnEtcd]:
    """A server that is stopped at the end."""
    made = OwnEtcd(folder, flags, binary=binary)
    try:
        yield made
    finally:
        made.stop()


class ThreeEtcds:
    """A cluster of three members on the loopback interface."""

    def __init__(self, folder: Path, flags: tuple[str, ...] = (), *, binary: str | None = None) -> None:
        ports = [unused_port() for _ in range(6)]
        self._program, self._flags = str(find_binary(binary)), flags
        self._clients, self._peers = ports[:3], ports[3:]
        self._members = [self._start(folder, number) for number in range(3)]
        eventually(lambda: self.leader is not None, within_s=_TIMEOUT_S, what="a leader", pause_s=0.1)

    def _start(self, folder: Path, number: int) -> "subprocess.Popen[bytes]":
        client, peer = (f"http://{_HOST}:{port}" for port in (self._clients[number], self._peers[number]))
        options = {
            "name": f"m{number}",
            "data-dir": str(folder / f"m{number}"),
            "listen-client-urls": client,
            "advertise-client-urls": client,
            "listen-peer-urls": peer,
            "initial-advertise-peer-urls": peer,
            "initial-cluster": ",".join(f"m{i}=http://{_HOST}:{port}" for i, port in enumerate(self._peers)),
        }
        flags = [*(f"--{name}={value}" for name, value in options.items()), *self._flags]
        command = [sys.executable, "-I", "-S", str(die_with_parent.__file__), str(os.getpid()), self._program, *flags]
        with (folder / f"m{number}.log").open("wb") as log:
            return subprocess.Popen([*command, "--unsafe-no-fsync"], stdout=log, stderr=log, start_new_session=True)

    @property
    def endpoints(self) -> list[str]:
        """Return `host:port` of each."""
        return [f"{_HOST}:{port}" for port in self._clients]

    @property
    def leader(self) -> int | None:
        """Return the number of the leading member if the living ones agree; None if not."""
        statuses = [_status(endpoint) for endpoint in self.endpoints]
        leading = {status.get("leader", "0") for status in statuses if status}  # the gateway leaves zeros out
        if len(leading) != 1 or leading == {"0"}:
            return None
        ids = [status["header"]["member_id"] if status else None for status in statuses]
        (leader,) = leading
        return ids.index(leader) if leader in ids else None

    def status(self, number: int) -> dict[str, Any]:
        """Return a member's status; raises as `http_get` does."""
        return http_get(self.endpoints[number], "maintenance/status")

    def fill(self) -> None:
        """Write until they reject writes."""
        _fill(self.endpoints[0])

    def free_space(self) -> None:
        """Delete the data that filled them; that ends no alarm."""
        _free_space(self.endpoints[0])

    def kill(self, number: int) -> None:
        """Send SIGKILL to one member."""
        self._members[number].kill()
        self._members[number].wait()

    @contextlib.contextmanager
    def stalled(self, number: int) -> Iterator[None]:
        """Suspend one member meanwhile: connections remain and can be made, nothing is answered."""
        _suspend(self._members[number].pid)
        try:
            yield
        finally:
            os.kill(self._members[number].pid, signal.SIGCONT)

    def stop(self) -> None:
        """End all members."""
        for number in range(3):
            self.kill(number)


def _suspend(pid: int) -> None:
    os.kill(pid, signal.SIGSTOP)
    process = psutil.Process(pid)
    eventually(lambda: process.status() == psutil.STATUS_STOPPED, within_s=_TIMEOUT_S, what="etcd is stopped")


def _status(endpoint: str) -> dict[str, Any] | None:
    try:
        return http_get(endpoint, "maintenance/status")
    except OSError:
        return None


@contextlib.contextmanager
def three_etcds(folder: Path, *flags: str, binary: str | None = None) -> Iterator[ThreeEtcds]:
    """A cluster that is stopped at the end."""
    made = ThreeEtcds(folder, flags, binary=binary)
    try:
        yield made
    finally:
        made.stop()
