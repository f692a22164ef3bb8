"""Hostile versions of JSON values: the same shape with a few faults, as an attacker or a bug would make them.

Pure functions of the value and a random source, so that a seed repeats a finding.
"""

import copy
import random
from typing import Any

HUGE_TEXT = "x" * 100_000
DEEP: Any = [[[[[[[[[["deep"]]]]]]]]]]
VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 2**31, -(2**31), 2**53 + 1, 2**63 - 1, 2**63, -(2**63), 10**30),
    *(0.5, -0.0, 1e308, -1e308, 1e-320),
    *("", " ", "0", "-1", "1e9", "true", "null", "../../etc/passwd", "a/b", "a\x00b", "\x1b[31m", "\u202e", "\ud7ff"),
    *("é" * 300, "ExitCode", "{}", "$(reboot)", "%s%n", "<script>alert(1)</script>", HUGE_TEXT),
    *([], {}, [None], [[]], {"": ""}, {"v": 1}, {"a": {"b": {"c": None}}}, list(range(1000)), DEEP),
)
NOT_FINITE = (float("nan"), float("inf"), float("-inf"))
"""Python's JSON has these values; JSON itself has not."""


def mutate(value: Any, rng: random.Random, *, times: int = 1, values: tuple[Any, ...] = VALUES) -> Any:
    """Return a copy with so many faults; the value may become one of `values` as a whole."""
    found = copy.deepcopy(value)
    for _ in range(times):
        found = _once(found, rng, values)
    return found


def _once(value: Any, rng: random.Random, values: tuple[Any, ...]) -> Any:
    places = list(_locations(value))
    if not places:
        return copy.deepcopy(rng.choice(values))
    holder, key = rng.choice(places)
    _corrupt(holder, key, rng, values)
    return value


def _locations(value: Any) -> Any:
    """Return every (container, key) in it."""
    keys = value.keys() if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for key in keys:
        yield value, key
        yield from _locations(value[key])


def _corrupt(holder: Any, key: Any, rng: random.Random, values: tuple[Any, ...]) -> None:
    kind = rng.randrange(6)
    if kind == 0:
        del holder[key]
    elif kind == 1 and isinstance(holder, list):
        holder.append(copy.deepcopy(holder[key]))
    elif kind == 1:
        holder[str(rng.choice(["", "x", "apiVersion", "elasticjob-", str(key).upper(), f"{key} "]))] = holder.pop(key)
    elif kind == 2 and isinstance(holder[key], bool | int | float):
        holder[key] = rng.choice([-holder[key], holder[key] + 1, holder[key] * 10**9, str(holder[key])])
    elif kind == 2 and isinstance(holder[key], str):
        holder[key] = rng.choice([holder[key] * 50, holder[key].upper(), holder[key][:-1], "\n" + holder[key]])
    else:
        holder[key] = copy.deepcopy(rng.choice(values))
