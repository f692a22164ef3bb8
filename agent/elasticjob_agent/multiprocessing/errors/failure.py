"""`ProcessFailure`: how one process failed, from its error file or else from its exit code."""

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
    """How one process failed.

    Raises:
        ValueError: the error file is there but is no JSON, or not of a form that is known.
        OSError: the error file is there but unreadable.
    """

    local_rank: int
    """Its place on its node, from 0."""
    pid: int
    """Its process id."""
    exitcode: int
    """0 to 255, or minus the signal's number."""
    error_file: str
    """Its path, or `<N/A>` if there is none."""
    stopped_by_us: bool = False
    """It did not fail by itself: it was stopped because something else had failed or ended."""
    error_file_data: dict[str, Any] = field(init=False)
    """The whole content of the error file; `{"message": "<NONE>"}` without one."""
    message: str | dict[str, Any] = field(init=False)
    """What the error file says; without one, what is known of the end: signal, core dump, out of memory."""
    timestamp: int = field(init=False)
    """Seconds since the epoch."""
    timestamp_ns: int = field(init=False)
    """The same, exact enough to tell which failure came first."""

    def __post_init__(self) -> None:
        self.error_file_data = {"message": "<NONE>"}  # a new one each time: readers may change theirs
        if self.error_file and Path(self.error_file).is_file():
            self._read()
        else:
            self._fill_missing()

    @property
    def exit_code(self) -> int:
        """The same as `exitcode`."""
        return self.exitcode

    def signal_name(self) -> str:
        """The name of the signal that killed it, or `<N/A>`."""
        try:
            return signal.Signals(-self.exitcode).name if self.exitcode < 0 else NOT_AVAILABLE
        except ValueError:  # a real-time signal
            return NOT_AVAILABLE

    def timestamp_isoformat(self) -> str:
        """When it failed, in local time, as `2030-01-31_23:59:59`."""
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
    """The time in these data; 0 if there is none that can be read."""
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
    """The earliest of those that were not stopped by us; of all, if all were; of equals the lowest rank."""
    genuine = {rank: failure for rank, failure in failures.items() if not failure.stopped_by_us} or failures
    return min(genuine.items(), key=lambda item: (item[1].timestamp_ns, item[0]))
