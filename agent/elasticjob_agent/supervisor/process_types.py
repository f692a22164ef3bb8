"""Records that a supervisor takes and returns: commands, sinks, exits.

They are plain frozen values; nothing here touches a process. `Exit.code` follows `subprocess`: an exit code, or minus
the number of the signal.
"""

import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Inherit:
    """The corresponding stream of the agent itself."""


@dataclass(frozen=True, slots=True)
class Null:
    """/dev/null."""


@dataclass(frozen=True, slots=True)
class FileSink:
    """A file to whose end the worker writes directly, without the agent."""

    path: Path


@dataclass(frozen=True, slots=True)
class LineSink:
    """A pipe to the agent: the bytes go unchanged to `path`, and whole prefixed lines to `write`.

    `write` gets one or more whole lines at a time. It must not block, because it runs in the event loop.
    """

    path: Path | None
    prefix: bytes
    write: Callable[[bytes], None]
    as_text: bool = False
    """Whether `write` gets UTF-8, where a lone carriage return ends a line; `path` gets the bytes unchanged."""
    is_behind: Callable[[], bool] | None = None
    """While this returns True, the worker's pipe is not read, and the worker waits when it is full."""
    on_first_byte: Callable[[], None] | None = None
    """Called once, when the first byte is read."""


Sink = Inherit | Null | FileSink | LineSink


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """One worker to start."""

    name: str
    """Its name in messages, such as `rank 3`."""
    argv: tuple[str, ...]
    """The first word is looked up in the PATH of `env`, as execvpe does."""
    env: Mapping[str, str]
    """The whole environment of the worker: nothing is added to it."""
    cwd: str | None
    """Its working directory; None for the one in which the supervisor was created."""
    stdout: Sink
    stderr: Sink
    fds: tuple[int, ...] = ()
    """More descriptors of ours that it gets, as 3, 4 and so on; they stay open here."""
    cpus: frozenset[int] = frozenset()
    """The only processors for it and all that it starts; empty for those of the supervisor."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exit:
    """The end of a worker: its exit code and time."""

    code: int
    """0 to 255, or minus the number of the signal that killed it."""
    at_s: float
    """Time at which it was reaped, on the monotonic clock, in seconds."""
    wall_ns: int
    """The same time on the wall clock, in nanoseconds; for reports only."""
    stopped_by_us: bool
    """Whether a stop or sweep had signalled it before its end was noticed."""
    note: str = ""
    """A further fact about the end, for example that its fork server died."""
    core_dumped: bool = False
    """Whether the kernel wrote a core dump, wherever `core_pattern` sends those."""

    @property
    def signal_name(self) -> str | None:
        """Return the name of the signal that killed it, such as `SIGKILL`, or None if it exited by itself."""
        if self.code >= 0:
            return None
        try:
            return signal.Signals(-self.code).name
        except ValueError:  # a real-time signal between SIGRTMIN and SIGRTMAX has no name
            return f"signal {-self.code}"

    @property
    def sentence(self) -> str:
        """Return `exited with code 1` or `killed by SIGSEGV`, with the notes in brackets if there are any."""
        name = self.signal_name
        how = f"killed by {name}" if name else f"exited with code {self.code}"
        return f"{how} ({self.notes})" if self.notes else how

    @property
    def notes(self) -> str:
        """Return facts besides code and signal, such as a core dump; empty if there are none."""
        return "; ".join(filter(None, ["core dumped" if self.core_dumped else "", self.note]))
