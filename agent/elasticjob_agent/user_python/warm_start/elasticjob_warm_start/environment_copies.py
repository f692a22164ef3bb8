"""Find what packages keep of the environment after they have read all of it."""

import gc
import os
import sys
import types
from itertools import compress

from .environment import FIRST_MARK, MOST_MARKS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

_MAX_DISTANCE = 4
_MAX_OBJECTS = 200_000
_BEFORE_IMPORTS = {"importlib", "runpy", "site", "sitecustomize", "elasticjob_warm_start", "os", "_collections_abc"}
_MARKS = range(FIRST_MARK, FIRST_MARK + MOST_MARKS)
_MARK_DIGITS = len(str(FIRST_MARK))
_COMMON_DIGITS = str(FIRST_MARK)[: _MARK_DIGITS - len(str(MOST_MARKS - 1))]
_COMMON_BYTES = _COMMON_DIGITS.encode()


def find_kept(
    readers: "set[str]", callers: "set[str]", varying: "set[str]", marks: "dict[str, str]"
) -> "dict[str, set[str]]":
    """Return package → the varying variables that its modules have kept of a loop over all variables.

    Args:
        readers: the packages that have looped. They are searched for dictionaries with these variables.
        callers: these and those that have called them. They are searched for marks, in a text or as a number.
        varying: the variables that differ by rank or round.
        marks: mark → its variable.
    """
    found: "dict[str, set[str]]" = {}
    callers = callers - _BEFORE_IMPORTS
    for package in readers | callers:
        names: "set[str]" = set()
        for layer in layers(package):
            if package in readers:
                names |= _variables_in(layer, varying)
            if package in callers:
                names.update(marks[mark] for mark in _marks_in(layer) if mark in marks)
        if names:
            found[package] = names
    return found


def _variables_in(layer: "list[object]", varying: "set[str]") -> "set[str]":
    """Return those of these variables that a dictionary of this layer has."""
    own = os.environ._data  # type: ignore[attr-defined]  # no copy: a forked worker has its own values there
    held: "Any" = [each for each in _of_kinds(layer, dict) if each is not own]
    held = [each for each in held if not dict.__contains__(each, "__builtins__")]
    return {
        name
        for name in varying
        if any(dict.__contains__(each, name) or dict.__contains__(each, name.encode()) for each in held)
    }


def _marks_in(layer: "list[object]") -> "list[str]":
    # Not isinstance: it asks the object for its class, and that of a deprecated name warns. Nor a method of the object.
    found = [str(each) for each in _of_kinds(layer, int) if type(each) is int and each in _MARKS]
    texts: "Any" = _of_kinds(layer, str)
    raw: "Any" = _of_kinds(layer, bytes)
    texts += [bytes.decode(each, "latin-1") for each in raw if bytes.__contains__(each, _COMMON_BYTES)]
    for text in (each for each in texts if str.__contains__(each, _COMMON_DIGITS)):
        place = str.find(text, _COMMON_DIGITS)
        while place >= 0:
            found.append(str.__getitem__(text, slice(place, place + _MARK_DIGITS)))
            place = str.find(text, _COMMON_DIGITS, place + 1)
    return found


def layers(package: str) -> "Iterator[list[object]]":
    """Return the objects that the modules of this package refer to, by their distance, up to a few.

    There are hundreds of thousands, so the loops are those of C.
    """
    modules = [each for name, each in sys.modules.items() if name == package or name.startswith(package + ".")]
    values = [value for each in modules for value in vars(each).values()]
    layer = dict(zip(map(id, values), values))  # noqa: B905 - not in Python 3.8
    seen = set(layer)
    for _ in range(_MAX_DISTANCE):
        objects = list(layer.values())
        yield objects
        foreign = set(map(id, _of_kinds(objects, types.ModuleType)))
        below = gc.get_referents(*(each for number, each in layer.items() if number not in foreign))
        layer = dict(zip(map(id, below), below))  # noqa: B905 - not in Python 3.8
        for number in layer.keys() & seen:
            del layer[number]
        seen.update(layer)
        if len(seen) > _MAX_OBJECTS:
            return


def _of_kinds(objects: "list[object]", *kinds: type) -> "list[object]":
    """Return the objects of these classes and of those below them."""
    classes = list(map(type, objects))
    numbers = list(map(id, classes))
    known = dict(zip(numbers, classes))  # noqa: B905 - not in Python 3.8
    wanted = {number for number, each in known.items() if issubclass(each, kinds)}
    return list(compress(objects, map(wanted.__contains__, numbers)))
