"""`P/c/ctl/terms`: the part of the spec that agents need while workers run, in one line that is pushed to each.

An agent knows the spec as it was when it joined. With a thousand slots it is too large for each of a thousand agents to
watch. The leader watches it. The leader writes the fields that may change while workers run here, when they change.
"""

from dataclasses import dataclass, fields, replace
from signal import Signals

from elasticjob_api.errors import RecordError
from elasticjob_api.records import SpecRecord

VERSION = "1"
_NEVER = "-"


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeConfig:
    """Fields of the same names in `SpecRecord`."""

    stop_signal: str
    graceful_shutdown_s: float
    failure_grace_s: float
    max_restarts: int
    report_period_s: float
    progress_deadline_s: float
    isolation_grace_s: float | None = None

    def apply(self, spec: SpecRecord) -> SpecRecord:
        """Return `spec` with these values; the same object if it has them already."""
        new = {name: value for name in _NAMES if (value := getattr(self, name)) != getattr(spec, name)}
        return replace(spec, **new) if new else spec


_NAMES = tuple(each.name for each in fields(RuntimeConfig))


def failure_stop_grace_s(config: RuntimeConfig | SpecRecord) -> float:
    """Return the grace of workers that stop because of a failure: never longer than that of a planned stop."""
    return min(config.failure_grace_s, config.graceful_shutdown_s)


def runtime_config_of(spec: SpecRecord) -> RuntimeConfig:
    """Return the runtime config in `spec`."""
    return RuntimeConfig(**{name: getattr(spec, name) for name in _NAMES})


def encode_runtime_config(config: RuntimeConfig) -> bytes:
    """Return version and fields in the order of the class, separated by spaces; a later version may add some."""
    numbers = (config.graceful_shutdown_s, config.failure_grace_s, config.max_restarts)
    more = (config.report_period_s, config.progress_deadline_s)
    isolation = _NEVER if config.isolation_grace_s is None else repr(config.isolation_grace_s)
    return " ".join((VERSION, config.stop_signal, *map(repr, (*numbers, *more)), isolation)).encode()


def decode_runtime_config(data: bytes) -> RuntimeConfig:
    """Return the runtime config in `data`; raise RecordError if it is corrupt or of another version."""
    try:
        version, signal, grace, failure_grace, restarts, period, deadline, *added = data.decode().split(" ")
        if signal not in Signals.__members__:
            raise RecordError(f"runtime config is corrupt: {signal[:20]!r} is not a signal")
        if version != VERSION:
            raise RecordError(f"runtime config is of version {version[:20]!r}, not {VERSION}")
        return RuntimeConfig(
            stop_signal=signal,
            graceful_shutdown_s=_seconds(grace),
            failure_grace_s=_seconds(failure_grace),
            max_restarts=int(restarts),
            report_period_s=_seconds(period),
            progress_deadline_s=_seconds(deadline),
            isolation_grace_s=_seconds(added[0]) if added and added[0] != _NEVER else None,
        )
    except ValueError as error:
        raise RecordError(f"runtime config is corrupt: {error}") from error


def _seconds(text: str) -> float:
    seconds = float(text)
    if not 0 <= seconds < float("inf"):
        raise ValueError(f"{text} is not a number of seconds")
    return seconds
