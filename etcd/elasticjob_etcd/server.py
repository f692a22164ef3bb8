"""An embedded etcd: one process on the loopback interface, for runs on one machine and for tests.

It keeps its data and `etcd.log` in the folder it was given, does not sync to disk (it is not meant to survive
the machine), stands in a session of its own, so that Ctrl-C does not reach it, and dies with its parent
whatever that dies of (`tether.py`). Nobody else's server can be taken for it: it counts as started when the
process itself listens and answers a read.
"""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import uuid
from pathlib import Path

from elasticjob_etcd import server_log, tether
from elasticjob_etcd.binary import find_binary
from elasticjob_etcd.client import EtcdClient
from elasticjob_etcd.errors import ServerError, Unavailable
from elasticjob_etcd.protocol import Endpoint

_HOST = "127.0.0.1"
_PEER_HOST = "127.0.0.2"  # another address, so that the client's port is known from the process's sockets
_POLL_S = 0.005
_NO_FSYNC = "unsafe-no-fsync"

QUOTA_BYTES = 256 * 1024 * 1024
"""Plenty for jobs; an API server of ten thousand pods needs more."""


class EtcdServer:
    """A running etcd; `start` makes it, `stop` ends it. It belongs to no event loop."""

    def __init__(self, process: subprocess.Popen[bytes], port: int) -> None:
        self._process = process
        self.port = port
        self.pid = process.pid
        self.endpoint = Endpoint(targets=(f"{_HOST}:{port}",))

    @classmethod
    async def start(
        cls,
        data_dir: str | os.PathLike[str],
        *,
        client_port: int = 0,
        binary: str | os.PathLike[str] | None = None,
        timeout_s: float = 10.0,
        quota_bytes: int = QUOTA_BYTES,
    ) -> "EtcdServer":
        """Start etcd in `data_dir` (made if absent, reused if not) and wait until it answers.

        Port 0 is any free one. Beyond `quota_bytes` it takes no more writes. The thread that calls this must outlive
        the server: the kernel takes its end for the parent's. Raises `BinaryNotFound`, or `ServerError` with what
        etcd said last.
        """
        program = find_binary(binary)
        folder = _folder(data_dir)
        log = folder / "etcd.log"
        arguments = [*_arguments(folder, client_port), f"--quota-backend-bytes={quota_bytes}"]
        try:
            try:
                return await cls._launch([str(program), *arguments, f"--{_NO_FSYNC}"], log, timeout_s)
            except ServerError:
                if not server_log.rejects_flag(log, _NO_FSYNC):
                    raise
            return await cls._launch([str(program), *arguments], log, timeout_s)  # an etcd too old to know it
        except ServerError as error:
            raise ServerError(server_log.explain(log, port=client_port, otherwise=str(error))) from error

    @classmethod
    async def _launch(cls, command: list[str], log: Path, timeout_s: float) -> "EtcdServer":
        process = _spawn(command, log)
        try:
            async with asyncio.timeout(timeout_s):
                server = cls(process, await _listening_port(process))
                await server._until_it_answers()
        except TimeoutError as error:
            _kill(process)
            message = f"etcd ({command[0]}) did not answer within {timeout_s:g} s"
            raise ServerError(message) from error
        except BaseException:
            _kill(process)
            raise
        return server

    async def _until_it_answers(self) -> None:
        client = EtcdClient(self.endpoint)
        try:
            while True:
                _require_running(self._process)
                with contextlib.suppress(Unavailable):
                    await client.get("health")
                    return
                await asyncio.sleep(_POLL_S)
        finally:
            await client.close()

    async def stop(self, *, grace_s: float = 2.0) -> None:
        """SIGTERM, and SIGKILL after `grace_s` seconds; returns when the process is gone. Idempotent."""
        if self._process.poll() is None:
            self._process.terminate()
            await _exited(self._process, within_s=grace_s)
        self.kill()

    def kill(self) -> None:
        """SIGKILL, at once; returns when the process is gone. Idempotent."""
        _kill(self._process)


def _folder(data_dir: str | os.PathLike[str]) -> Path:
    folder = Path(data_dir).absolute()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        message = f"the folder of an embedded etcd cannot be made: {folder}: {error.strerror}"
        raise ServerError(message) from error
    return folder


def _arguments(folder: Path, port: int) -> list[str]:
    client, peer = f"http://{_HOST}:{port}", f"http://{_PEER_HOST}:1"  # nobody ever dials the peer
    options = {
        "name": "elasticjob",
        "data-dir": folder / "data",
        "listen-client-urls": client,
        "advertise-client-urls": client,
        "listen-peer-urls": f"http://{_PEER_HOST}:0",
        "initial-advertise-peer-urls": peer,
        "initial-cluster": f"elasticjob={peer}",
        # The cluster id is a hash of this: a wiped store must not look like the one before.
        "initial-cluster-token": uuid.uuid4().hex,
        "auto-compaction-mode": "periodic",
        "auto-compaction-retention": "5m",
        "snapshot-count": 10_000,
        # The one member elects itself after one to six of these ticks; with etcd's own that is up to 1.1 s.
        "heartbeat-interval": 30,
        "election-timeout": 150,
        "log-outputs": "stderr",
    }
    return [f"--{name}={value}" for name, value in options.items()]


def _spawn(command: list[str], log: Path) -> subprocess.Popen[bytes]:
    # etcd reads a flag from ETCD_<FLAG> too; the environment is not meant for this one.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("ETCD_")}
    tethered = [sys.executable, "-I", "-S", str(tether.__file__), str(os.getpid()), *command]
    with log.open("wb") as output:
        return subprocess.Popen(
            tethered, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=environment, start_new_session=True
        )


async def _listening_port(process: subprocess.Popen[bytes]) -> int:
    import psutil  # noqa: PLC0415  # 15 ms that only those pay who start a server

    while True:
        _require_running(process)
        with contextlib.suppress(psutil.Error):  # it may end while its sockets are looked at
            for socket in psutil.Process(process.pid).net_connections("tcp4"):
                if socket.status == psutil.CONN_LISTEN and socket.laddr.ip == _HOST:
                    return int(socket.laddr.port)
        await asyncio.sleep(_POLL_S)


def _require_running(process: subprocess.Popen[bytes]) -> None:
    if (code := process.poll()) is not None:
        end = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        message = f"etcd ended while starting, {end}"
        raise ServerError(message)


async def _exited(process: subprocess.Popen[bytes], *, within_s: float) -> None:
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    pidfd = os.pidfd_open(process.pid)
    loop.add_reader(pidfd, ended.set)
    try:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                await ended.wait()
    finally:
        loop.remove_reader(pidfd)
        os.close(pidfd)


def _kill(process: subprocess.Popen[bytes]) -> None:
    process.kill()  # does nothing once the process was waited for
    process.wait()
