"""One process of ours with the interface of `multiprocessing.Process`.

Its end is published once, from the background's loop, when it was reaped and its answer is complete. From then on every
field is final, and `sentinel` is readable.
"""

import os
import signal
from contextlib import suppress
from multiprocessing import connection

from elasticjob_agent.supervisor import fd_registry
from elasticjob_agent.supervisor.forkserver import process_tree
from elasticjob_agent.supervisor.function_worker import INTERRUPTED, NOT_STARTED, RAISED
from elasticjob_agent.supervisor.function_workers import FunctionChild
from elasticjob_agent.supervisor.process_types import Exit
from elasticjob_agent.supervisor.result_channel import FunctionOutcome

_RAISED = (RAISED, NOT_STARTED)


class FunctionProcess:
    """A started process that runs a function; created in the background's loop."""

    def __init__(self, child: FunctionChild, *, name: str, daemon: bool) -> None:
        self.name = name
        self.daemon = daemon
        self.pid = child.pid
        self.ended_at_s = float("inf")
        """The time of its end on the monotonic clock, in seconds."""
        self.traceback = ""
        """The traceback of its function; empty if it did not raise."""
        self.sentinel = fd_registry.register(os.eventfd(0, os.EFD_CLOEXEC))
        """A descriptor that is readable once it has ended."""
        self._creator_pid = os.getpid()
        self._child = child
        self._code: int | None = None
        for each in (child.exit, child.outcome):
            each.add_done_callback(self._publish)

    def __del__(self) -> None:
        # A fork of this process has closed it already, and there the number may belong to another file by now.
        if os.getpid() == self._creator_pid:
            fd_registry.close(self.sentinel)

    @property
    def exitcode(self) -> int | None:
        """Return 0 to 255, or minus the number of a signal; None while it runs."""
        return self._code

    def is_alive(self) -> bool:
        """Return whether it has not ended."""
        return self._code is None

    def join(self, timeout: float | None = None) -> None:
        """Wait for its end, at most `timeout` seconds; None waits for ever."""
        connection.wait([self.sentinel], timeout)

    def terminate(self) -> None:
        """Send it SIGTERM."""
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        """Send it SIGKILL."""
        self._signal(signal.SIGKILL)

    def _signal(self, signum: signal.Signals) -> None:
        # Open the handle first and check second: another process with its pid would not be a child of our fork server.
        with suppress(ProcessLookupError):
            handle = os.pidfd_open(self.pid)
            try:
                found = process_tree.read(self.pid)
                if found and found.parent == self._child.server.supervisor.server_pid:
                    signal.pidfd_send_signal(handle, signum)
            finally:
                os.close(handle)

    def _publish(self, _: object) -> None:
        if self._code is None and self._child.exit.done() and self._child.outcome.done():
            exit_, outcome = self._child.exit.result(), self._child.outcome.result()
            self.ended_at_s = exit_.at_s
            self.traceback = _traceback(outcome)
            self._code = self._exit_code_of(exit_, outcome)
            os.eventfd_write(self.sentinel, 1)

    def _exit_code_of(self, exit_: Exit, outcome: FunctionOutcome | None) -> int:
        """Return its exit code."""
        del outcome
        return exit_.code


def _traceback(outcome: FunctionOutcome | None) -> str:
    if outcome is None or outcome.kind not in _RAISED:
        return ""
    try:
        return outcome.describe["traceback"]
    except (ValueError, KeyError):  # another process has written to its channel; the exit code suffices
        return ""


class CommandProcess(FunctionProcess):
    """A process for which Ctrl-C is a successful end, because the key is meant for the parent."""

    def _exit_code_of(self, exit_: Exit, outcome: FunctionOutcome | None) -> int:
        interrupted = outcome is not None and outcome.kind == INTERRUPTED
        return 0 if interrupted and exit_.code == -signal.SIGINT else exit_.code
