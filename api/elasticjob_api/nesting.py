"""Limits of nesting of an API server's objects: for any object, and for a job.

The pod template of a job may hold any fields. An API server stores 10,000 levels of them; Python reads 1,000.
"""

import json
import sys
import threading
from collections.abc import Iterable
from typing import Any

Container = dict[str, Any] | list[Any]

STORED_LEVELS = 12_000
"""More than an API server stores. Reading so many takes 2 MiB of the C stack, which usually has 8 MiB."""
JOB_LEVELS = 100
"""The limit for the spec of a job. Pods of real jobs have some 15 levels."""


def allow_stored_levels() -> None:
    """Let this process read every object that an API server stores: else one deep job breaks each list of all jobs."""
    sys.setrecursionlimit(max(sys.getrecursionlimit(), STORED_LEVELS))


def read_json(text: str | bytes) -> Any:
    """Return the parsed answer of an API server, however deeply it is nested.

    Raise RecursionError in any thread but the main one: its stack may be small.
    """
    try:
        return json.loads(text)
    except RecursionError:
        if threading.current_thread() is not threading.main_thread():
            raise
    levels = sys.getrecursionlimit()
    allow_stored_levels()
    try:
        return json.loads(text)
    finally:
        sys.setrecursionlimit(levels)


def is_deeper(value: Any, levels: int) -> bool:
    """Return whether objects and lists in `value` are nested more than `levels` deep."""
    here = _containers([value])
    for _ in range(levels):
        here = [inner for outer in here for inner in _containers(outer.values() if isinstance(outer, dict) else outer)]
    return bool(here)


def cut(value: Any, levels: int, mark: str = "...") -> Any:
    """Return the value with `mark` in place of every object and list below `levels` levels."""
    if not isinstance(value, dict | list):
        return value
    if not levels:
        return mark
    if isinstance(value, dict):
        return {name: cut(inner, levels - 1, mark) for name, inner in value.items()}
    return [cut(inner, levels - 1, mark) for inner in value]


def _containers(values: Iterable[Any]) -> list[Container]:
    return [value for value in values if isinstance(value, dict | list)]
