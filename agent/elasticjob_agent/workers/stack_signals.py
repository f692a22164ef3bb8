"""The processes of a node that write their stacks on a signal, as they have registered themselves.

    {"pid", "signal"}             the script has registered this process (`worker.dump_stacks_on_request`)
    {"pid", "signal", "stderr"}   the warm start has, before the script; "stderr" is device and inode of its stderr
    {"pid", "signal", "taken"}    the script has set a handler of its own for the signal of the warm start

Any program of the user may write these. So a pid is only used if it is one of a worker's process tree.
"""

import signal
from dataclasses import dataclass
from typing import Any, TypeGuard

_OF_SCRIPTS = {signal.SIGUSR1, signal.SIGUSR2}
_OF_WARM_START = signal.SIGURG
"""The signal of user_python/warm_start/elasticjob_warm_start/stacks.py, which has the reason."""
_MAX_PROCESSES = 4096
"""A limit to the memory that a script can take by registrations."""


@dataclass(frozen=True, slots=True)
class StackSignal:
    """How one process is asked for its stacks."""

    number: int
    stderr: tuple[int, int] | None = None
    """Device and inode of the stderr that it had before its script; None if the script itself registered it."""


class StackSignals:
    """The registrations of one round, by pid."""

    def __init__(self) -> None:
        self._by_pid: dict[int, StackSignal] = {}

    def get(self, pid: int) -> StackSignal | None:
        """Return the registration of this process, None if it has none."""
        return self._by_pid.get(pid)

    def clear(self) -> None:
        """Forget all: a new round begins."""
        self._by_pid.clear()

    def take(self, value: Any) -> bool:
        """Note this message; return whether it is one."""
        if not isinstance(value, dict):
            return False
        pid, number = value.get("pid"), value.get("signal")
        if not _is_number(pid) or not _is_number(number):
            return False
        if number in _OF_SCRIPTS:
            return self._add(pid, StackSignal(number))
        if number != _OF_WARM_START:
            return False
        if value.get("taken") is True:
            self._remove(pid)
            return True
        stderr = _pair(value.get("stderr"))
        return stderr is not None and self._add(pid, StackSignal(number, stderr))

    def _add(self, pid: int, registered: StackSignal) -> bool:
        if pid in self._by_pid or len(self._by_pid) < _MAX_PROCESSES:
            self._by_pid[pid] = registered
        return True

    def _remove(self, pid: int) -> None:
        registered = self._by_pid.get(pid)
        if registered is not None and registered.stderr is not None:  # one of the script itself has another signal
            del self._by_pid[pid]


def _is_number(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63


def _pair(value: Any) -> tuple[int, int] | None:
    if not isinstance(value, list) or len(value) != 2 or not all(isinstance(each, int) for each in value):  # noqa: PLR2004 - a pair
        return None
    return value[0], value[1]
