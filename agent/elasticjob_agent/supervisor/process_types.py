"""The records that go into a supervisor and come out of it: commands, sinks, exits.

Plain frozen values; nothing here touches a process. `Exit.code` follows `subprocess`: an exit code, or minus
the signal's number.
"""

import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Inherit:
    """The stream of the agent itself."""


@dataclass(frozen=True, slots=True)
class Null:
    """/dev/null."""


@dataclass(frozen=True, slots=True)
class FileSink:
    """The worker writes straight into this file, at its end; the agent is not in the path."""

    path: Path


@dataclass(frozen=True, slots=True)
class LineSink:
    """A pipe to the agent: the bytes go unchanged to `path`, and whole prefixed lines to `write`.

    `write` gets one or more whole lines at a time and must not block: it runs in the event loop.
    """

    path: Path | None
    prefix: bytes
    write: Callable[[bytes], None]
    as_text: bool = False
    """What is written is UTF-8, and a lone carriage return ends a line; `path` gets the bytes as they are."""
    is_behind: Callable[[], bool] | None = None
    """While it says yes, the worker's pipe is not read: the worker waits for whoever is behind."""


Sink = Inherit | Null | FileSink | LineSink


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """One worker to start."""

    name: str
    """What messages call it, as `rank 3`."""
    argv: tuple[str, ...]
    """The first word is looked up on the PATH of `env`, as execvpe does."""
    env: Mapping[str, str]
    """The whole environment of the worker: nothing is added to it."""
    cwd: str | None
    """Its working directory; None: the one in which the supervisor was created."""
    stdout: Sink
    stderr: Sink
    fds: tuple[int, ...] = ()
    """Descriptors of ours that it gets besides, as 3, 4 and so on; they stay open here."""
    cpus: frozenset[int] = frozenset()
    """The only processors that it may run on, it and all that it starts; empty: those of the supervisor."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exit:
    """How and when a worker ended."""

    code: int
    """0 to 255, or minus the number of the signal that killed it."""
    at_s: float
    """The moment it was reaped, on the monotonic clock."""
    wall_ns: int
    """The same moment on the wall clock, for reports only."""
    stopped_by_us: bool
    """A stop or sweep had signalled it before it was seen to have ended."""
    note: str = ""
    """What else is known, as that its starter died."""
    core_dumped: bool = False
    """The signal made the kernel write a core dump, wherever `core_pattern` sends those."""

    @property
    def signal_name(self) -> str | None:
        """The name of the signal that killed it, as `SIGKILL`; None if it exited by itself."""
        if self.code >= 0:
            return None
        try:
            return signal.Signals(-self.code).name
        except ValueError:  # a real-time signal between SIGRTMIN and SIGRTMAX has no name
            return f"signal {-self.code}"

    @property
    def sentence(self) -> str:
        """`exited with code 1` or `killed by SIGSEGV`, then `(core dumped)` if it was, and the note."""
        name = self.signal_name
        how = f"killed by {name}" if name else f"exited with code {self.code}"
        return f"{how} ({self.notes})" if self.notes else how

    @property
    def notes(self) -> str:
        """What there is to say besides code and signal; empty if nothing."""
        return "; ".join(filter(None, ["core dumped" if self.core_dumped else "", self.note]))
