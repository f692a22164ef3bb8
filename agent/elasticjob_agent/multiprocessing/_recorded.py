"""Run the function of a worker under `record`, which writes its exception to its error file."""

from collections.abc import Callable
from typing import Any

from elasticjob_agent.multiprocessing.errors import record


def run_recorded(fn: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    """Call it; return its value or raise its exception."""
    return record(_plain(fn))(*args)


def _plain(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Return a plain function with the same call: partials, builtins and callable objects lack attributes of one."""

    def call(*args: Any) -> Any:
        return fn(*args)

    return call
