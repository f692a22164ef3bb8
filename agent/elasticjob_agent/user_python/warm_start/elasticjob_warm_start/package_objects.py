"""Find the objects that the modules of a package keep."""

import gc
import sys
import types
from itertools import compress

from .entry import names_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_MAX_DISTANCE = 4
_MAX_OBJECTS = 200_000


def layers(package: str) -> "Iterator[list[object]]":
    """Return the objects that the modules of this package refer to, by their distance, up to a few.

    There are hundreds of thousands, so the loops are those of C.
    """
    modules = [each for name, each in sys.modules.items() if name == package or name.startswith(package + ".")]
    values = [value for each in modules for value in names_of(each).values()]
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
