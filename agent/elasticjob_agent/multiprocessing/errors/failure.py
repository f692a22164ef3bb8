"""`ProcessFailure`: the failure of one process, from its error file or else from its exit code."""

import json
import os
import signal
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

NOT_AVAILABLE = "<N/A>"
_NS = 1_000_000_000


@dataclass
class ProcessFailure:
    """The failure of one process.

    Raises:
        ValueError: the error file exists, but is no JSON or has an unknown form.
        OSError: the error file exists, but cannot be read.
    """

    local_rank: int
    """Its local rank on its node, from 0."""
    pid: int
    """Its process id."""
    exitcode: int
    """0 to 255, or minus the number of the signal."""
    error_file: str
    """Path of its error file, or `<N/A>` without one."""
    stopped_by_us: bool = False
    """Whether it did not fail by itself: it was stopped because of another failure or end."""
    error_file_data: dict[str, Any] = field(init=False)
    """The whole content of the error file; `{"message": "<NONE>"}` without one."""
    message: str | dict[str, Any] = field(init=False)
    """The message of the error file. Without a file: the known facts of the end, such as signal, core dump, out of
    memory.
    """
    timestamp: int = field(init=False)
    """Seconds since the epoch."""
    timestamp_ns: int = field(init=False)
    """Nanoseconds since the epoch, exact enough to find the first of several failures."""

    def __post_init__(self) -> None:
        self.error_file_data = {"message": "<NONE>"}  # a new one each time: readers may change theirs
        if self.error_file and Path(self.error_file).is_file():
            self._read()
        else:
            self._fill_missing()

    @property
    def exit_code(self) -> int:
        """Return `exitcode`."""
        return self.exitcode

    def signal_name(self) -> str:
        """Return the name of the signal that killed it, or `<N/A>`."""
        try:
            return signal.Signals(-self.exitcode).name if self.exitcode < 0 else NOT_AVAILABLE
        except ValueError:  # a real-time signal
            return NOT_AVAILABLE

    def timestamp_isoformat(self) -> str:
        """Return the local time of the failure, such as `2030-01-31_23:59:59`."""
        return time.strftime("%Y-%m-%d_%H:%M:%S", time.localtime(self.timestamp))

    def _fill_missing(self) -> None:
        self.error_file = NOT_AVAILABLE
        self._set_time(int(time.time() * _NS))
        if self.exitcode < 0:
            self.message = f"Signal {-self.exitcode} ({self.signal_name()}) received by PID {self.pid}"
        else:
            self.message = (
                f"Process {self.pid} ended with exit code {self.exitcode} and left no error file; "
                "decorate its main function with `record` to see its traceback here"
            )

    def _set_time(self, timestamp_ns: int) -> None:
        self.timestamp_ns = timestamp_ns
        self.timestamp = timestamp_ns // _NS

    def _read(self) -> None:
        data = json.loads(Path(self.error_file).read_text(encoding="utf-8"))
        message = data.get("message") if isinstance(data, dict) else None
        if not isinstance(message, str | dict):
            raise ValueError(  # noqa: TRY004 - the file's content is wrong, not an argument's type
                f"error file {self.error_file} has no `message` that is a text or a mapping"
            )
        self.error_file_data, self.message = data, message
        times = message.get("extraInfo") if isinstance(message, dict) else data
        self._set_time(_time_ns(times) or os.stat(self.error_file).st_mtime_ns)  # noqa: PTH116 - a str


def _time_ns(times: object) -> int:
    """Return the time in this content in nanoseconds, or 0 if it has none that can be read."""
    if not isinstance(times, dict):
        return 0
    for key, unit in (("timestamp_ns", 1), ("timestamp", _NS)):
        try:
            return int(times[key]) * unit
        except (KeyError, TypeError):
            continue
        except ValueError:
            try:
                return int(float(times[key]) * unit)
            except (ValueError, OverflowError):
                continue
    return 0


def first_failure(failures: dict[int, ProcessFailure]) -> tuple[int, ProcessFailure]:
    """Return rank and failure of the earliest that was not stopped by us, or of the earliest of all if all were.

    Of several at the same time, the lowest rank counts.
    """
    candidates = {rank: failure for rank, failure in failures.items() if not failure.stopped_by_us} or failures
    return min(candidates.items(), key=lambda item: (item[1].timestamp_ns, item[0]))
