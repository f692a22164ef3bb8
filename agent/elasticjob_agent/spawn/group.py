"""Functions that are started together, all or none, and ended with everything that they have started.

At the interpreter's exit, groups that still run are handled as the standard library handles its processes: daemons are
killed, the others are waited for. An interpreter that ends by Ctrl-C ends all of them. Processes of the standard
library would have got the terminal's signal themselves; ours are in sessions of their own.
"""

import atexit
import concurrent.futures
import multiprocessing
import os
import sys
from collections.abc import Awaitable, Sequence

from elasticjob_agent.spawn.process import FunctionProcess
from elasticjob_agent.supervisor.background_loop import Background, background
from elasticjob_agent.supervisor.function_workers import Function, FunctionChild, spawn_functions, stop_functions

INTERRUPTED_GRACE_S = 5.0
"""Seconds between SIGTERM and SIGKILL for processes whose parent is interrupted while it waits for them."""


class Group:
    """The processes of one start; see `start`."""

    def __init__(self, server: Background, kind: type[FunctionProcess]) -> None:
        self.processes: list[FunctionProcess] = []
        """The processes in the order of their functions."""
        self._server = server
        self._kind = kind
        self._children: list[FunctionChild] = []
        self._ended = False

    @classmethod
    def start(
        cls,
        functions: Sequence[Function],
        method: str | None,
        *,
        kind: type[FunctionProcess] = FunctionProcess,
        preload: Sequence[str] = (),
    ) -> "Group":
        """Start all of these; none is left if one cannot be started, or if this is interrupted.

        Raises:
            StartError: one cannot be started; errors of pickling are raised unchanged.
            AssertionError: this process is a daemon of multiprocessing.
        """
        if multiprocessing.current_process().daemon:
            raise AssertionError("daemonic processes are not allowed to have children")
        background_loop = background()
        group = cls(background_loop, kind)
        supervisor = background_loop.run(background_loop.supervisor())
        # In this thread and before anything is started: the caller gets an error of pickling.
        starting = spawn_functions(supervisor, functions, method, preload=preload)
        try:
            background_loop.run(group._register(starting, functions))
        except BaseException:
            group.end(grace_s=0).result()
            raise
        if functions:
            _remember(group)
        return group

    def end(self, *, grace_s: float) -> "concurrent.futures.Future[None]":
        """Send SIGTERM to all process groups, and SIGKILL to the rest of their trees after `grace_s` seconds.

        It also ends what processes that have ended have left. A second call may end the group sooner.
        """
        self._ended = True
        _groups.discard(self)
        return self._server.submit(stop_functions(self._children, grace_s=grace_s))

    def sweep(self) -> None:
        """Remove the rest of processes that have all ended. It acts once; may be called again."""
        if not self._ended:
            self.end(grace_s=0).result()

    async def _register(self, starting: Awaitable[list[FunctionChild]], functions: Sequence[Function]) -> None:
        # Nothing is awaited between the start and these lines, so no cancellation can come between them.
        self._children = await starting
        self.processes = [
            self._kind(child, name=function.name, daemon=function.daemon)
            for child, function in zip(self._children, functions, strict=True)
        ]


_groups: set[Group] = set()
"""Groups of this process that have not been ended yet."""


def _remember(group: Group) -> None:
    # Registered after the background's own hook, so that it runs before that one ends everything.
    if not _groups:
        atexit.unregister(_finish_at_exit)
        atexit.register(_finish_at_exit)
    _groups.add(group)


def _finish_at_exit() -> None:
    groups = list(_groups)
    interrupted = getattr(sys, "last_type", None) is KeyboardInterrupt
    grace_s = INTERRUPTED_GRACE_S if interrupted else 0.0
    to_end = [group for group in groups if interrupted or group.processes[0].daemon]
    for ending in [group.end(grace_s=grace_s) for group in to_end]:
        ending.result()
    for group in (group for group in groups if group not in to_end):
        for process in group.processes:
            process.join()
        group.sweep()


os.register_at_fork(after_in_child=_groups.clear)
