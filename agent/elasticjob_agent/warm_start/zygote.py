"""The agent's end of one zygote: start it, read its report, have it fork workers."""

import asyncio
import contextlib
import json
import os
import socket
import stat
from collections.abc import Iterable, Mapping
from typing import Any

from elasticjob_agent.supervisor import Child, Command, Supervisor, SupervisorError, fd_registry
from elasticjob_agent.supervisor.preforked import PreforkedWorker
from elasticjob_agent.warm_start.changed_variables import ChangedVariables
from elasticjob_agent.warm_start.eligibility import READ_WHEN_LOADED, script_module
from elasticjob_agent.warm_start.import_source import ImportSource
from elasticjob_agent.warm_start.injection import Write, become_zygote
from elasticjob_agent.warm_start.preload_report import PreloadReport, parse_report

PROTOCOL = 3
"""Version of the messages; the zygote's code has the same number. Its files may be replaced while an agent runs."""
_MESSAGE_BYTES = 1 << 16
_REPORT_BYTES = 1 << 24
_END_S = 1.0
"""Seconds until the fork server has reported the end of a zygote whose socket is closed."""


class ZygoteLost(SupervisorError):
    """The zygote has ended, or has sent no message of the protocol."""


class ZygoteOutdatedError(ZygoteLost):
    """A file of its imports has changed since, so it forks no worker any more."""


class ZygoteForkError(SupervisorError):
    """It could not fork all workers, and goes on waiting; the text is the reason."""


class Zygote:
    """One zygote; see user_python/warm_start/elasticjob_warm_start/zygote.py for the messages."""

    def __init__(self, supervisor: Supervisor, child: Child, link: socket.socket) -> None:
        self._supervisor = supervisor
        self.child = child
        self._link = link
        self._loop = asyncio.get_running_loop()

    @classmethod
    async def start(
        cls,
        supervisor: Supervisor,
        command: Command,
        *,
        imports: ImportSource,
        variables: Mapping[str, tuple[str, str]],
        files: Mapping[str, int],
        denied: Iterable[str],
        varying: Iterable[str],
        changed: ChangedVariables,
        output: Write,
    ) -> "Zygote":
        """Start a zygote for workers like `command`; `output` gets what its imports print.

        It imports nothing if one of these `files` has another time of modification. Its workers write to `changed`.

        Raises:
            StartError: it cannot be started.
            ZygoteLost: it ended at once.
            OSError: a file of ours that it needs cannot be read.
        """
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        fd_registry.register_object(ours)
        ours.setblocking(False)
        try:
            with theirs:
                child = await supervisor.start_zygote(become_zygote(command, theirs.fileno(), output))
        except BaseException:
            ours.close()
            raise
        self = cls(supervisor, child, ours)
        plan = {
            "protocol": PROTOCOL,
            "modules": dict(imports.modules),
            "folders": list(imports.folders),
            "variables": dict(variables),
            "known": sorted({*imports.known_variables, *variables}),
            "contexts": dict(imports.contexts),
            "files": dict(files),
            "denied": sorted(denied),
            "varying": sorted(varying),
            "read_in_c": list(READ_WHEN_LOADED),
            "script": script_module(command.argv[1:]),
        }
        try:
            self._send_plan(json.dumps(plan).encode("ascii"), changed)
        except BaseException:
            await self.close()
            raise
        return self

    def _send_plan(self, plan: bytes, changed: ChangedVariables) -> None:
        fd = os.memfd_create("plan")
        try:
            with os.fdopen(os.dup(fd), "wb") as file:
                file.write(plan)
            self._send({"plan": True}, fd, changed.fd)
        finally:
            os.close(fd)

    async def read_report(self) -> PreloadReport:
        """Return the report about the imports.

        Raises:
            ZygoteLost: it ended before, or the report is none.
        """
        data, content = await self._receive()
        if not data or content is None:
            raise ZygoteLost(f"it ended during the imports{await self._end()}")
        report = parse_report(content)
        if report is None:
            raise ZygoteLost("its report is not readable")
        if report.protocol != PROTOCOL:
            raise ZygoteLost("its files are of another version than this agent")
        return report

    async def fork(self, count: int, *, is_checked: bool = True) -> list[PreforkedWorker]:
        """Fork so many workers, and return them when each waits for its command, or is lost.

        `is_checked` is whether the zygote first looks for changed files. Each worker does so before its script, too.

        Raises:
            ZygoteLost: the zygote has ended.
            ZygoteOutdatedError: a file of its imports has changed.
            ZygoteForkError: not all could be forked; none of them is left.
            ForkServerLost: the fork server has ended.
        """
        try:
            workers = await self._supervisor.adopt(
                count, lambda links: self._send({"fork": True, "check": is_checked}, *(link.fileno() for link in links))
            )
        except ZygoteLost as error:
            raise ZygoteLost(f"{error}{await self._end()}") from None
        try:
            data, _ = await self._receive()
            await self._check_forked(_parse(data))
            await asyncio.wait([worker.registered for worker in workers])
        except BaseException:
            await asyncio.shield(self._supervisor.discard(workers))
            raise
        return workers

    async def _check_forked(self, message: dict[str, Any]) -> None:
        if path := message.get("stale"):
            raise ZygoteOutdatedError(f"{str(path)[:200]} has changed since it was imported")
        if failure := message.get("failed"):
            raise ZygoteForkError(str(failure)[:200])
        if not message.get("forked"):
            raise ZygoteLost(f"it has ended{await self._end()}")

    async def _end(self) -> str:
        """Return how it ended, in brackets, once the fork server has reported it."""
        await asyncio.wait([self.child.exit], timeout=_END_S)
        return f" ({self.child.exit.result().sentence})" if self.child.exit.done() else ""

    async def close(self, *, exit_s: float = 0.0) -> None:
        """End it; within `exit_s`, the imports may remove what they have made. May be called again."""
        if exit_s > 0.0:
            with contextlib.suppress(ZygoteLost):
                self._send({"exit": True})
                await asyncio.wait([self.child.drained], timeout=exit_s)
        self._link.close()
        await self._supervisor.stop([self.child], grace_s=0.0)

    def _send(self, message: dict[str, object], *fds: int) -> None:
        try:
            socket.send_fds(self._link, [json.dumps(message).encode("ascii")], fds)
        except OSError as error:
            raise ZygoteLost("it has ended") from error

    async def _receive(self) -> tuple[bytes, bytes | None]:
        """Return the next message, and the content of the file that came with it, if any."""
        readable = asyncio.Event()
        self._loop.add_reader(self._link, readable.set)
        try:
            await readable.wait()
        finally:
            self._loop.remove_reader(self._link)
        try:
            data, fds, _, _ = socket.recv_fds(self._link, _MESSAGE_BYTES, 1)
        except OSError:  # it has ended, or was closed meanwhile
            return b"", None
        try:
            return data, _read_file(fds[0]) if fds else None
        finally:
            for fd in fds:  # the kernel may have room for one more than we ask for
                os.close(fd)


def _read_file(fd: int) -> bytes:
    """Return the content of a memory file; of any other one, which may block, nothing."""
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        return b""
    return os.pread(fd, _REPORT_BYTES, 0)


def _parse(data: bytes) -> dict[str, Any]:
    """Return the message; the imports run in the same process, so any bytes may come."""
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
