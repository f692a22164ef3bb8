"""Builder of the commands that tests start, and recorders of their output."""

import itertools
import os
import resource
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from elasticjob_agent.supervisor import Child, Command, FileSink, Inherit, LineSink, Null
from testing.processes.census import MARKER
from testing.waiting import aeventually


class RecordingConsole:
    """A console that records everything: use it as `LineSink.write`."""

    def __init__(self) -> None:
        self.data = b""

    def __call__(self, lines: bytes) -> None:
        assert lines.endswith(b"\n")
        self.data += lines

    @property
    def lines(self) -> list[str]:
        return self.data.decode().splitlines()

    def sink(self, path: Path | None = None, *, prefix: bytes = b"") -> LineSink:
        """Return a sink that records lines here and, with a path, copies the bytes to a file."""
        return LineSink(path=path, prefix=prefix, write=self)

    async def line(self, text: str) -> None:
        """Wait until this line was written."""
        await aeventually(lambda: text in self.lines, what=f"line {text!r}")


class TreePipe:
    """A pipe that is the stdout of a whole tree: by its end, the kernel reports that no process of the tree lives."""

    def __init__(self) -> None:
        self._reader, self._writer = os.pipe()
        os.set_blocking(self._reader, False)
        self.sink = FileSink(Path(f"/proc/self/fd/{self._writer}"))
        self._received = b""

    async def ready(self) -> None:
        """Wait until the tree has written `ready`; from then on only the tree has the pipe open."""
        await aeventually(lambda: self._read() and b"ready\n" in self._received, what="the tree is ready")
        os.close(self._writer)

    def is_at_end(self) -> bool:
        """Return whether the pipe is at its end: no process has it open any more."""
        return self._read() == b""

    def _read(self) -> bytes | None:
        try:
            data = os.read(self._reader, 4096)
        except BlockingIOError:
            return None
        self._received += data
        return data

    def close(self) -> None:
        os.close(self._reader)


class Builder:
    """Builder of commands that the census of this test can find."""

    def __init__(self, token: str) -> None:
        self.env = {"PATH": "/usr/bin:/bin", MARKER: token}

    def __call__(self, *argv: str, **fields: Any) -> Command:
        """Return a command with no output but its errors."""
        plain = Command(name="worker", argv=argv, env=self.env, cwd=None, stdout=Null(), stderr=Inherit())
        return replace(plain, **fields)

    def python(self, script: str, *arguments: str, **fields: Any) -> Command:
        """Return a Python that starts fast and knows only the standard library."""
        return self(sys.executable, "-I", "-S", "-c", script, *arguments, **fields)

    def python_with_site(self, script: str, *arguments: str, **fields: Any) -> Command:
        """Return the same Python with its module `site`, as a zygote needs it."""
        return self(sys.executable, "-c", script, *arguments, **fields)


async def sentence(child: Child) -> str:
    return (await child.exit).sentence


def take_descriptors(pid: int) -> tuple[int, int]:
    """Leave this process no number for a descriptor; return its limits before."""
    used = {int(path.name) for path in Path(f"/proc/{pid}/fd").iterdir()}
    unused = next(number for number in itertools.count() if number not in used)
    hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)[1]
    return resource.prlimit(pid, resource.RLIMIT_NOFILE, (unused, hard))
