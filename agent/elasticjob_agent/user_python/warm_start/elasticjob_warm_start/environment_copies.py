"""Find what packages keep of the environment after they have read all of it."""

import gc
import os
import sys
import types

from .environment import FIRST_MARK, MOST_MARKS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_MAX_DISTANCE = 4
_MAX_OBJECTS = 200_000
_BEFORE_IMPORTS = {"importlib", "runpy", "site", "sitecustomize", "elasticjob_warm_start", "os", "_collections_abc"}
_MARKS = range(FIRST_MARK, FIRST_MARK + MOST_MARKS)
_MARK_DIGITS = len(str(FIRST_MARK))
_COMMON_DIGITS = str(FIRST_MARK)[: _MARK_DIGITS - len(str(MOST_MARKS - 1))]


def find_copies(packages: "set[str]", varying: "set[str]") -> "dict[str, set[str]]":
    """Return package → the varying variables in a dictionary that its modules hold, for those of these packages."""
    found: "dict[str, set[str]]" = {}
    wanted = varying | {name.encode() for name in varying}
    for package in packages:
        names = {
            each if isinstance(each, str) else each.decode()
            for held in _dictionaries(package)
            for each in wanted
            if each in held
        }
        if names:
            found[package] = names
    return found


def find_marks(packages: "set[str]", marks: "dict[str, str]") -> "dict[str, set[str]]":
    """Return package → the variables whose marks its modules hold, in a text or as a number."""
    found: "dict[str, set[str]]" = {}
    for package in packages - _BEFORE_IMPORTS:
        for layer in layers(package):
            for mark in (mark for each in layer for mark in _marks_in(each)):
                if mark in marks:
                    found.setdefault(package, set()).add(marks[mark])
    return found


def _marks_in(value: object) -> "list[str]":
    # Not isinstance: it asks the object for its class, and that of a deprecated name warns.
    if type(value) is int:
        return [str(value)] if value in _MARKS else []
    if issubclass(type(value), bytes):
        value = value.decode("latin-1")  # type: ignore[attr-defined]
    if not issubclass(type(value), str):
        return []
    text: str = value  # type: ignore[assignment]
    found = []
    place = text.find(_COMMON_DIGITS)
    while place >= 0:
        found.append(text[place : place + _MARK_DIGITS])
        place = text.find(_COMMON_DIGITS, place + 1)
    return found


def _dictionaries(package: str) -> "list[dict[object, object]]":
    """Return the dictionaries that the modules of this package refer to, directly or through a few objects."""
    own = os.environ._data  # type: ignore[attr-defined]  # no copy: a forked worker has its own values there
    found: "list[dict[object, object]]" = []
    for layer in layers(package):
        found += [each for each in layer if issubclass(type(each), dict)]  # type: ignore[misc]
    return [each for each in found if each is not own and "__builtins__" not in each]


def layers(package: str) -> "Iterator[list[object]]":
    """Return the objects that the modules of this package refer to, by their distance, up to a few."""
    modules = [each for name, each in sys.modules.items() if name == package or name.startswith(package + ".")]
    layer: "list[object]" = [value for each in modules for value in vars(each).values()]
    seen = set(map(id, layer))
    for _ in range(_MAX_DISTANCE):
        yield layer
        below = gc.get_referents(*(each for each in layer if not issubclass(type(each), types.ModuleType)))
        layer = [each for each in below if id(each) not in seen]
        seen.update(map(id, layer))
        if len(seen) > _MAX_OBJECTS:
            return
