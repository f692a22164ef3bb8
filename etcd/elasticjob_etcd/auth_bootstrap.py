"""Enables authentication in an etcd's data before any network reaches it: an init container of etcd's pod runs this.

The given etcd command runs with its own flags, and listens for clients only on a Unix socket in a private folder. It
is stopped when this member rejects a caller without a user. An etcd that starts on the data afterwards is never open:
neither on an empty disk, nor to certificates of deleted jobs.
"""

import argparse
import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from elasticjob_etcd.auth import ROOT
from elasticjob_etcd.client import EtcdClient
from elasticjob_etcd.errors import EtcdError, RequestRejected, ServerError, Unavailable
from elasticjob_etcd.interface import Endpoint

OPTION = "--enable-auth"
"""The payload's first argument that selects this program."""
_POLL_S = 0.05
_REPEAT_S = 10.0
"""Between two log lines about the same error."""
_STOP_S = 10.0
_FAILED = 1


def main(arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    """Return the exit code: 0 when the data requires users, 1 with one sentence on stderr if not."""
    parser = argparse.ArgumentParser(prog=f"elasticjob-agent {OPTION}", description=__doc__)
    parser.add_argument("--admin", default=ROOT, metavar="NAME", help="the operator's user in etcd [root]")
    parser.add_argument(
        "--timeout", type=float, metavar="SECONDS", help="time to wait for a majority of members [unlimited]"
    )
    parser.add_argument("command", nargs="+", metavar="ETCD", help="etcd and its flags, after --")
    options = parser.parse_args(arguments)
    try:
        asyncio.run(enable_auth(options.command, options.admin, environment, timeout_s=options.timeout))
    except (EtcdError, OSError) as error:
        _log(f"authentication could not be enabled in etcd's data: {error}")
        return _FAILED
    except asyncio.CancelledError:
        _log("stopped by a signal")
        return _FAILED
    return 0


async def enable_auth(
    command: Sequence[str], admin: str, environment: Mapping[str, str], *, timeout_s: float | None = None
) -> None:
    """Run etcd until its data has authentication enabled, and stop it; raise EtcdError, OSError."""
    _cancel_on_sigterm()
    with tempfile.TemporaryDirectory(prefix="etcd-") as folder:
        socket = Path(folder) / "client"
        flag = f"--listen-client-urls=unix://{socket}"
        process = await asyncio.create_subprocess_exec(*command, flag, stdin=subprocess.DEVNULL, env=dict(environment))
        try:
            async with asyncio.timeout(timeout_s):
                await _until_refused(socket, process, admin)
        except TimeoutError as error:
            raise Unavailable(f"no majority of its members answered within {timeout_s:g} s") from error
        finally:
            await _stop(process)
        _log("authentication is enabled")


async def _stop(process: asyncio.subprocess.Process) -> None:
    with contextlib.suppress(ProcessLookupError):
        process.terminate()
    try:
        async with asyncio.timeout(_STOP_S):
            await process.wait()
    except TimeoutError:
        process.kill()  # answered writes are on the disk
        await process.wait()


def _cancel_on_sigterm() -> None:
    """Cancel this task on SIGTERM: the first process of a container has no default handler, and would ignore it."""
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)


async def _until_refused(socket: Path, process: asyncio.subprocess.Process, admin: str) -> None:
    """Wait until a caller without a user is rejected; enable authentication where it is not."""
    client = EtcdClient(Endpoint((f"unix:{socket}",)))
    errors = _ErrorLog()
    try:
        while True:
            if process.returncode is not None:
                raise ServerError(f"etcd ended with code {process.returncode}; its own log above has the reason")
            try:
                if await _refuses_anonymous(client):
                    return
                await client.auth.enable([admin])
            except (Unavailable, RequestRejected) as error:  # rejected: another member has just enabled it
                errors.log(error)
                await asyncio.sleep(_POLL_S)
    finally:
        await client.close()


async def _refuses_anonymous(client: EtcdClient) -> bool:
    try:
        await client.get("health")
    except RequestRejected as error:
        if "user name is empty" not in str(error):
            raise
        return True
    return False


class _ErrorLog:
    """Logs etcd's errors during the wait, at most one in `_REPEAT_S`."""

    def __init__(self) -> None:
        self._due_s = asyncio.get_running_loop().time() + _REPEAT_S

    def log(self, error: EtcdError) -> None:
        """Log the error if a line is due."""
        now_s = asyncio.get_running_loop().time()
        if now_s >= self._due_s:
            self._due_s = now_s + _REPEAT_S
            _log(f"waiting for etcd: {error}")


def _log(message: str) -> None:
    print(f"elasticjob-agent {OPTION}: {message}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        sys.exit(main(sys.argv[1:], os.environ))
