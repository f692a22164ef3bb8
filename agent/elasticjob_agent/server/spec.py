"""`WorkerSpec`: the workers of a node, their restarts and output; validated when it is created."""

import functools
import os
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from elasticjob_agent.multiprocessing.std import Std
from elasticjob_agent.rendezvous.interface import RendezvousHandler


@dataclass
class WorkerSpec:
    """The workers of one role; the same on every node of the role.

    Raises:
        AssertionError: there is no entrypoint, or a number is out of its range.
    """

    role: str
    """The name of the role; role ranks count the workers with this name."""
    local_world_size: int
    """Number of workers on this node."""
    rdzv_handler: RendezvousHandler | None
    """Required for `run`."""
    fn: Callable[..., Any] | None = None
    """Deprecated name of `entrypoint`, which it overrides."""
    entrypoint: Callable[..., Any] | str | None = None
    """A function, or a command."""
    args: tuple[Any, ...] = ()
    """Arguments for each worker; `${local_rank}` in text is replaced."""
    max_restarts: int = 3
    """Number of failures after which the workers are restarted; one more fails the agent. 0 or more."""
    monitor_interval: float = 30.0
    """Seconds after which the agent checks its workers without a change; above 0."""
    master_port: int | None = None
    """The TCP port on which rank 0 listens; None for a free one."""
    master_addr: str | None = None
    """The address of rank 0; None for that of the rendezvous or of rank 0's node."""
    redirects: Std | dict[int, Std] = Std.NONE
    """Streams that go to files, for all or by local rank; only for an agent with a log_dir."""
    tee: Std | dict[int, Std] = Std.NONE
    """Streams that go to files and console, in the same form."""
    local_addr: str | None = field(default=None, kw_only=True)
    """The address of this node that it offers as MASTER_ADDR."""
    event_log_handler: str = field(default="null", kw_only=True)
    """The destination of events, by its name in `events.register`."""
    numa_options: Any = field(default=None, kw_only=True)
    """None, or the processors of each worker: `multiprocessing.numa.NumaOptions`, or torch's."""
    duplicate_stdout_filters: list[str] | None = field(default=None, kw_only=True)
    """Teed lines with any of these texts also go to one file for all ranks."""
    duplicate_stderr_filters: list[str] | None = field(default=None, kw_only=True)
    """The same for stderr."""
    virtual_local_rank: bool = field(default=False, kw_only=True)
    """Whether each worker gets LOCAL_RANK 0 and one device."""

    def __post_init__(self) -> None:
        _require(self.local_world_size > 0, f"local_world_size is {self.local_world_size}; it must be above 0")
        _require(self.monitor_interval > 0, f"monitor_interval is {self.monitor_interval} s; it must be above 0")
        _require(self.max_restarts >= 0, f"max_restarts is {self.max_restarts}; it must be 0 or more")
        if self.fn is not None:
            warnings.warn("WorkerSpec.fn is deprecated, use entrypoint", DeprecationWarning, stacklevel=3)
            self.entrypoint = self.fn
        _require(bool(self.entrypoint), "a WorkerSpec needs an entrypoint: a function or a command")

    def get_entrypoint_name(self) -> str:
        """Return the entrypoint's name for messages: base name of a command, or qualified name of a function."""
        entry: Any = self.entrypoint
        if isinstance(entry, str):
            return os.path.basename(entry)  # noqa: PTH119 - a command is no path: Path("a/") would drop the slash
        while isinstance(entry, functools.partial):
            entry = entry.func
        return str(getattr(entry, "__qualname__", type(entry).__qualname__))


def _require(is_true: bool, sentence: str) -> None:  # noqa: FBT001 - reads as an assertion; `assert` is removed under -O
    if not is_true:
        raise AssertionError(sentence)
