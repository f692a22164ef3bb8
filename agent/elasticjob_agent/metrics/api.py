"""Metrics in torch elastic's form: named values of a group go to a handler; by default they are discarded.

A handler is the user's code: its errors are logged and not raised, so that no metric ever changes a run.
"""

import abc
import functools
import logging
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple, ParamSpec, TypeVar, overload

P = ParamSpec("P")
T = TypeVar("T")

DEFAULT_GROUP = "torchelastic"

log = logging.getLogger(__name__)


class MetricData(NamedTuple):
    """One value, as handlers get it."""

    timestamp: float
    """Seconds since the epoch, by the wall clock."""
    group_name: str
    """The group that it belongs to."""
    name: str
    """The name of the metric."""
    value: float
    """The value, in the unit that the name ends with, such as `.ms`."""


class MetricsConfig:
    """Parameters of a handler, as a mapping."""

    __slots__ = ["params"]

    def __init__(self, params: dict[str, str] | None = None) -> None:
        self.params = {} if params is None else dict(params)


class MetricHandler(abc.ABC):
    """A destination of values."""

    @abc.abstractmethod
    def emit(self, metric_data: MetricData) -> None:
        """Take one value; `MetricStream.add_value` raises an error of this, `put_metric` never does."""


class ConsoleMetricHandler(MetricHandler):
    """Prints each value to stdout."""

    def emit(self, metric_data: MetricData) -> None:
        """Print it as `[time][group]: name=value`."""
        data = metric_data
        print(f"[{data.timestamp}][{data.group_name}]: {data.name}={data.value}", file=sys.stdout)


class NullMetricHandler(MetricHandler):
    """Discards all values."""

    def emit(self, metric_data: MetricData) -> None:
        """Do nothing."""


class MetricStream:
    """The values of one group, for one handler."""

    def __init__(self, group_name: str, handler: MetricHandler) -> None:
        self.group_name = group_name
        self.handler = handler

    def add_value(self, metric_name: str, metric_value: float) -> None:
        """Emit a value with the current time; errors of the handler are raised."""
        self.handler.emit(MetricData(time.time(), self.group_name, metric_name, metric_value))


_handlers: dict[str, MetricHandler] = {}
_default: list[MetricHandler] = [NullMetricHandler()]


def configure(handler: MetricHandler, group: str | None = None) -> None:
    """Send the values of `group` to `handler`; without a group, those of all groups that have no handler.

    Until then they are discarded. Existing streams keep their handler.
    """
    if group is None:
        _default[0] = handler
    else:
        _handlers[group] = handler


def getStream(group: str) -> MetricStream:  # noqa: N802 - the public name in torch's API
    """Return the stream of `group`, with the handler configured at this moment."""
    return MetricStream(group, _handlers.get(group, _default[0]))


def put_metric(metric_name: str, metric_value: float, metric_group: str = DEFAULT_GROUP) -> None:
    """Emit one value; an error of the handler is logged, never raised.

    Args:
        metric_name: the name, which ends with the unit.
        metric_value: the value.
        metric_group: the group, which selects the handler.
    """
    try:
        getStream(metric_group).add_value(metric_name, metric_value)
    except Exception:
        log.exception(
            "the handler of metric group %r failed on %s=%s; the run continues", metric_group, metric_name, metric_value
        )


def _get_metric_name(fn: Callable[..., Any]) -> str:
    """Return `Class.method` of the defining class, or `module.function`."""
    if "." in fn.__qualname__ or not fn.__module__:
        return fn.__qualname__
    return f"{fn.__module__.rpartition('.')[2]}.{fn.__qualname__}"


@overload
def prof(fn: Callable[P, T], group: str = ...) -> Callable[P, T]: ...
@overload
def prof(fn: None = None, group: str = ...) -> Callable[[Callable[P, T]], Callable[P, T]]: ...
def prof(fn: Callable[..., Any] | None = None, group: str = DEFAULT_GROUP) -> Any:
    """Put `<name>.success` or `<name>.failure` 1 and `<name>.duration.ms` at each call; bare, or with `group=`."""
    if fn is None:
        return functools.partial(prof, group=group)
    return _measured(fn, _get_metric_name(fn), lambda name, value: put_metric(name, value, group))


def profile(group: str | None = None) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Decorate like `prof`, with names that lack the class or module; deprecated."""
    warnings.warn("profile is deprecated, use prof", FutureWarning, stacklevel=2)

    def decorate(fn: Callable[P, T]) -> Callable[P, T]:
        return _measured(fn, fn.__name__, lambda name, value: put_metric(name, value, group or DEFAULT_GROUP))

    return decorate


def publish_metric(metric_group: str, metric_name: str, metric_value: float) -> None:
    """Emit one value, with the group first; deprecated form of `put_metric`."""
    warnings.warn("publish_metric is deprecated, use put_metric", FutureWarning, stacklevel=2)
    put_metric(metric_name, metric_value, metric_group)


def _measured(fn: Callable[P, T], name: str, put: Callable[[str, float], None]) -> Callable[P, T]:
    @functools.wraps(fn)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> T:
        start_s, outcome = time.monotonic(), "failure"
        try:
            result = fn(*args, **kwargs)
            outcome = "success"
            return result
        finally:
            put(f"{name}.{outcome}", 1)
            put(f"{name}.duration.ms", int((time.monotonic() - start_s) * 1000))

    return wrapper


def get_elapsed_time_ms(start_time_in_seconds: float) -> int:
    """Return whole milliseconds since `start_time_in_seconds`, a value of `time.time()`."""
    return int((time.time() - start_time_in_seconds) * 1000)
