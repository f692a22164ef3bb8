"""An embedded etcd: one process for runs on one machine, for the nodes of a command line, and for tests.

It listens on a Unix socket that other users of the machine cannot reach, and at a port only on request. It writes its
data and `etcd.log` into the given folder, and does not sync to disk: it is not meant to survive the machine. It has a
session of its own, so Ctrl-C does not reach it, and is killed if its parent dies for any reason (`die_with_parent.py`).
No other server can be mistaken for it: it has started when a read on its own socket is answered.
"""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Sequence
from pathlib import Path

from elasticjob_etcd import die_with_parent, embedded_log
from elasticjob_etcd.binary import find_binary
from elasticjob_etcd.client import EtcdClient
from elasticjob_etcd.errors import ServerError, Unavailable
from elasticjob_etcd.interface import Endpoint
from elasticjob_etcd.listening import LOOPBACK, Listening
from elasticjob_etcd.socket_dir import Claim

_POLL_S = 0.005
_NO_FSYNC = "unsafe-no-fsync"

QUOTA_BYTES = 256 * 1024 * 1024
"""Enough for jobs; an API server of ten thousand pods needs more."""


class EmbeddedEtcd:
    """A running etcd; `start` makes it, `stop` ends it. It belongs to no event loop."""

    def __init__(self, process: subprocess.Popen[bytes], listening: Listening, log: Path) -> None:
        self._process = process
        self._listening = listening
        self._log = log
        self._port = listening.port
        self.pid = process.pid
        self.socket = listening.socket

    @property
    def port(self) -> int:
        """Return the port for clients; only if one was requested."""
        assert self._port is not None
        return self._port

    @property
    def endpoint(self) -> Endpoint:
        """Return the endpoint for clients on this machine: its port if it has one, else its socket."""
        return self.socket if self._port is None else Endpoint((f"{LOOPBACK}:{self._port}",))

    @classmethod
    async def start(
        cls,
        data_dir: str | os.PathLike[str],
        *,
        client_port: int | None = None,
        addresses: Sequence[str] = (LOOPBACK,),
        binary: str | os.PathLike[str] | None = None,
        timeout_s: float = 10.0,
        quota_bytes: int = QUOTA_BYTES,
        claim: Claim | None = None,
    ) -> "EmbeddedEtcd":
        """Start etcd in `data_dir` (made if absent, reused if not) and wait until it answers.

        With a `client_port` it also listens at these `addresses`; 0 is any free port. Beyond `quota_bytes` it rejects
        writes. With a `claim` its sockets are in that folder, and it holds the claim until it ends.
        The thread that calls this must outlive the server: the kernel treats the end of that thread as the parent's.
        Raises `BinaryNotFound`, or `ServerError` with the last line of etcd's log.
        """
        program = find_binary(binary)
        folder = _folder(data_dir)
        log = folder / "etcd.log"
        if claim is None:
            listening = Listening.prepare(client_port, addresses)
        else:
            listening = Listening(claim.folder, client_port, addresses, claim.descriptor)
        command = [str(program), *_arguments(folder, listening), f"--quota-backend-bytes={quota_bytes}"]
        try:
            try:
                return await cls._launch([*command, f"--{_NO_FSYNC}"], listening, log, timeout_s)
            except ServerError:
                if not embedded_log.rejects_flag(log, _NO_FSYNC):
                    raise
            return await cls._launch(command, listening, log, timeout_s)  # an etcd without this flag
        except BaseException as error:
            listening.remove()
            if not isinstance(error, ServerError):
                raise
            raise ServerError(embedded_log.explain(log, port=client_port, otherwise=str(error))) from error

    @classmethod
    async def _launch(cls, command: list[str], listening: Listening, log: Path, timeout_s: float) -> "EmbeddedEtcd":
        server = cls(_spawn(command, listening, log), listening, log)
        try:
            async with asyncio.timeout(timeout_s):
                await server._until_it_answers()
                if listening.port == 0:
                    server._port = _listening_port(server.pid)
        except TimeoutError as error:
            server._end()
            message = f"etcd ({command[0]}) did not answer within {timeout_s:g} s"
            raise ServerError(message) from error
        except BaseException:
            server._end()
            raise
        return server

    async def _until_it_answers(self) -> None:
        while not self._listening.is_open:  # after a refused connection gRPC would wait longer
            _require_running(self._process)
            await asyncio.sleep(_POLL_S)
        client = EtcdClient(self.socket)
        try:
            while True:
                _require_running(self._process)
                with contextlib.suppress(Unavailable):
                    await client.get("health")
                    return
                await asyncio.sleep(_POLL_S)
        finally:
            await client.close()

    async def ended(self) -> str:
        """Wait until the process has ended by itself; return a description that follows `etcd has ended: `."""
        await _exited(self._process)
        end, error = _describe_end(self._process.wait()), embedded_log.last_error(self._log)
        return f"{end}, {error}" if error else end

    async def stop(self, *, grace_s: float = 2.0) -> None:
        """Send SIGTERM, and SIGKILL after `grace_s` seconds; return when the process has ended. Idempotent."""
        if self._process.poll() is None:
            self._process.terminate()
            await _exited(self._process, within_s=grace_s)
        self.kill()

    def kill(self) -> None:
        """Send SIGKILL; return when the process has ended. Idempotent."""
        self._end()
        self._listening.remove()

    def _end(self) -> None:
        self._process.kill()  # does nothing after the process was reaped
        self._process.wait()


def _folder(data_dir: str | os.PathLike[str]) -> Path:
    folder = Path(data_dir).absolute()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        message = f"the folder of an embedded etcd cannot be made: {folder}: {error.strerror}"
        raise ServerError(message) from error
    return folder


def _arguments(folder: Path, listening: Listening) -> list[str]:
    sockets = listening.flags()
    options = {
        "name": "elasticjob",
        "data-dir": folder / "data",
        **sockets,
        "initial-cluster": f"elasticjob={sockets['initial-advertise-peer-urls']}",
        # The cluster id is a hash of this: a wiped store must not look like its predecessor.
        "initial-cluster-token": uuid.uuid4().hex,
        "auto-compaction-mode": "periodic",
        "auto-compaction-retention": "5m",
        "snapshot-count": 10_000,
        "enable-grpc-gateway": "false",  # HTTP, open to web pages in a browser of this machine; unused
        # The only member elects itself after one to six of these ticks; with etcd's default that is up to 1.1 s.
        "heartbeat-interval": 30,
        "election-timeout": 150,
        "log-outputs": "stderr",
    }
    return [f"--{name}={value}" for name, value in options.items()]


def _spawn(command: list[str], listening: Listening, log: Path) -> subprocess.Popen[bytes]:
    # etcd reads flags from ETCD_<FLAG> too; the environment is not meant for this etcd.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("ETCD_")}
    bound = [sys.executable, "-I", "-S", str(die_with_parent.__file__), str(os.getpid()), *command]
    with log.open("wb") as output:
        return subprocess.Popen(
            bound,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            cwd=listening.folder,
            env=environment,
            start_new_session=True,
            pass_fds=() if listening.lock is None else (listening.lock,),
        )


def _listening_port(pid: int) -> int:
    import psutil  # noqa: PLC0415  # 15 ms, needed only for port 0

    found = psutil.Process(pid).net_connections("tcp4")
    return next(each.laddr.port for each in found if each.status == psutil.CONN_LISTEN)


def _require_running(process: subprocess.Popen[bytes]) -> None:
    if (code := process.poll()) is not None:
        message = f"etcd ended while starting, {_describe_end(code)}"
        raise ServerError(message)


def _describe_end(code: int) -> str:
    return f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"


async def _exited(process: subprocess.Popen[bytes], *, within_s: float | None = None) -> None:
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
