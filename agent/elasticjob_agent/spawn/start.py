"""Start a function in several processes."""

import os
import warnings
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from multiprocessing import forkserver
from typing import Any

from elasticjob_agent.spawn.context import ProcessContext
from elasticjob_agent.spawn.errors import ProcessException
from elasticjob_agent.spawn.group import INTERRUPTED_GRACE_S, Group
from elasticjob_agent.spawn.process import CommandProcess
from elasticjob_agent.supervisor.function_workers import Function
from elasticjob_agent.supervisor.process_types import Inherit

ENV_VAR_PARALLEL_START = "TORCH_MP_PARALLEL_START"
"""Kept for programs that set it: processes always start in parallel, so that none waits for the imports of another."""

_PUBLISHED_S = 5.0
"""Seconds to wait for published ends. After the end of a group only a process that hangs in the kernel has none."""


class FunctionContext(ProcessContext):
    """A context whose processes are a group of ours: they end with their trees, and tracebacks need no file."""

    def __init__(self, group: Group) -> None:
        super().__init__(group.processes, [""] * len(group.processes))
        self._group = group
        self._ending: Future[None] | None = None

    def _end(self, grace_s: float) -> None:
        # Only once. But if the last join was interrupted in it, the grace of this one counts if it ends sooner.
        if self._ending is None or not self._ending.done():
            self._ending = self._group.end(grace_s=grace_s)
        self._ending.result()
        for process in self.processes:
            process.join(_PUBLISHED_S)

    def _sweep(self) -> None:
        self._group.sweep()

    def _traceback(self, index: int) -> str:
        return self._group.processes[index].traceback


def spawn(  # noqa: PLR0917 - the signature is torch's
    fn: Callable[..., object],
    args: Iterable[Any] = (),
    nprocs: int = 1,
    join: bool = True,  # noqa: FBT001, FBT002 - the signature is torch's
    daemon: bool = False,  # noqa: FBT001, FBT002 - the signature is torch's
    start_method: str = "spawn",
) -> ProcessContext | None:
    """Run `fn(index, *args)` in `nprocs` new interpreters; see `start_processes`.

    Args:
        fn: a function that can be pickled: of a module's top level.
        args: arguments after the index.
        nprocs: number of processes.
        join: wait for all, and return None; else return the context at once.
        daemon: they may not start processes of their own, and are killed when this one exits.
        start_method: only `spawn`, which is used in any case.

    Raises:
        ProcessException: a process failed; see `ProcessContext.join`.
    """
    if start_method != "spawn":
        warnings.warn(
            f"spawn always uses the start method spawn, not {start_method}; start_processes accepts any of them",
            FutureWarning,
            stacklevel=2,
        )
    return start_processes(fn, args, nprocs, join, daemon, start_method="spawn")


def start_processes(  # noqa: PLR0917 - the signature is torch's
    fn: Callable[..., object],
    args: Iterable[Any] = (),
    nprocs: int = 1,
    join: bool = True,  # noqa: FBT001, FBT002 - the signature is torch's
    daemon: bool = False,  # noqa: FBT001, FBT002 - the signature is torch's
    start_method: str | None = "spawn",
    *,
    preload: Sequence[str] = (),
) -> ProcessContext | None:
    """Run `fn(index, *args)` in `nprocs` new processes.

    Args:
        fn: the function; under `spawn` and `forkserver` it and `args` must be picklable.
        args: arguments after the index.
        nprocs: number of processes.
        join: wait for all, and return None; else return the context at once.
        daemon: they may not start processes of their own, and are killed when this one exits.
        start_method: `spawn`, `fork` or `forkserver`; None for the default of `multiprocessing`.
        preload: modules that the fork server imports once, before the first start; empty for those of
            `multiprocessing.set_forkserver_preload`.

    Raises:
        ProcessException: a process failed; see `ProcessContext.join`.
        ValueError: there is no such start method, or the number of processes is negative.
        StartError: a process could not be started; then none is left. An error of pickling is raised unchanged.
    """
    if nprocs < 0:
        raise ValueError(f"nprocs is {nprocs}; it must be 0 or more")
    functions = _functions(fn, tuple(args), nprocs, daemon=daemon)
    group = Group.start(functions, start_method, kind=CommandProcess, preload=tuple(preload) or configured_preload())
    context = FunctionContext(group)
    if not join:
        return context
    try:
        while not context.join():
            pass
    except ProcessException:
        raise
    except BaseException:
        # As for Ctrl-C: no caller has the context to join them later, and a terminal's signal does not reach their
        # sessions.
        group.end(grace_s=INTERRUPTED_GRACE_S).result()
        raise
    return None


def _functions(fn: Callable[..., object], args: tuple[Any, ...], nprocs: int, *, daemon: bool) -> list[Function]:
    env = dict(os.environ)
    return [
        Function(
            name=f"process {index}",
            fn=fn,
            args=(index, *args),
            env=env,
            stdout=Inherit(),
            stderr=Inherit(),
            daemon=daemon,
            silent=True,
            discard=True,
        )
        for index in range(nprocs)
    ]


def configured_preload() -> tuple[str, ...]:
    """Return the modules of `multiprocessing.set_forkserver_preload`; the main module is sent with each start."""
    modules = forkserver._forkserver._preload_modules  # type: ignore[attr-defined]  # noqa: SLF001 - it has no getter
    return tuple(module for module in modules if module != "__main__")
