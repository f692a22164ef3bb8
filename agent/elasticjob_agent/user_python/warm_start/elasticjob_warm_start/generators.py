"""Random generators that exist after the imports: all forked workers would draw the same numbers from them.

A generator of `random` that was seeded by the system gets a new seed in each worker, as it would have had. The meaning
of any other seed cannot be known, so the package that keeps such a generator is not imported ahead.
"""

import gc
import random
import sys
import types
import weakref
from itertools import compress

from .entry import loaded, names_of
from .module_ends import ModuleEnds
from .state_watch import StateWatch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Container, Iterator
    from typing import Any

_WITH_STATE = frozenset({"numpy.random.mtrand", "torch"})
"""The modules that make a global generator, besides `random`."""
_MAX_OWNER_DISTANCE = 6
_MAX_OWNERS = 100
_MAX_HOLDERS = 10_000
"""Objects that are asked at once what they hold, which limits the memory for the answer."""


class Generators:
    """Records the seeds of generators while modules are imported."""

    def __init__(self) -> None:
        self._fresh: "dict[int, weakref.ref[random.Random]]" = {}
        self._known = {id(random._inst)}
        self._original = random.Random.seed
        self._states = _global_states()
        self._setters = StateWatch()
        # A package may import numpy, and draw from its new generator at once.
        self._module_ends = ModuleEnds(_WITH_STATE, self._note_new_states)
        self._seed = self._recording_seed()
        random.Random.seed = self._seed  # type: ignore[method-assign,assignment]

    def _recording_seed(self) -> object:
        original, fresh = self._original, self._fresh

        def seed(self: random.Random, a: object = None, version: int = 2) -> None:
            if a is None:
                fresh[id(self)] = weakref.ref(self)
            else:
                fresh.pop(id(self), None)
            original(self, a, version)  # type: ignore[arg-type]

        return seed

    @property
    def replaced(self) -> "list[tuple[object, object]]":
        """Return functions that modules may have, each with the one in whose place it is."""
        return [*self._setters.replaced, (self._seed, self._original)]

    def _note_new_states(self) -> None:
        self._states = {**_global_states(), **self._states}
        self._setters.watch()

    def compare_states(self) -> bool:
        """Return whether an import has seeded a global generator or drawn since the last call, or restored a state."""
        before, self._states = self._states, _global_states()
        if self._setters.take_call():
            return True
        return any(name in self._states and self._states[name] != state for name, state in before.items())

    def stop(self) -> "list[str]":
        """Record no more; return the modules that keep a generator whose seed is not known."""
        random.Random.seed = self._original  # type: ignore[method-assign]
        self._module_ends.stop()
        self._setters.stop()
        self._known.update(number for number, each in self._fresh.items() if each() is not None)
        numpy: "Any" = loaded("numpy.random.mtrand")
        if numpy is not None:
            self._known.update({id(numpy._rand), id(numpy._rand._bit_generator)})
        found = [each for each in instances(_kinds()) if id(each) not in self._known]
        found = [each for each in found if not isinstance(each, random.SystemRandom)]
        return sorted({owner_of(each) for each in found} | _owners_of_torch_generators())

    def reseed(self) -> None:
        """Seed what the imports have seeded by chance: else all ranks draw the same, and each round again."""
        for reference in self._fresh.values():
            generator = reference()
            if generator is not None:
                generator.seed()
        numpy: "Any" = loaded("numpy.random")
        if numpy is not None:
            numpy.seed()
        torch: "Any" = loaded("torch")
        if torch is not None:
            torch.default_generator.seed()  # of the CPU alone: torch.seed() would also queue a seed for the GPUs


def _kinds() -> "tuple[type, ...]":
    numpy: "Any" = loaded("numpy.random")
    if numpy is None:
        return (random.Random,)
    return (random.Random, numpy.Generator, numpy.RandomState, numpy.BitGenerator)


def instances(kinds: "tuple[type, ...]") -> "list[object]":
    """Return the objects of these classes and of those below them; there are hundreds of thousands of others."""
    wanted: "dict[int, type]" = {}
    rest = list(kinds)
    while rest:
        kind = rest.pop()
        if id(kind) not in wanted:
            wanted[id(kind)] = kind
            rest += type.__subclasses__(kind)
    return list(_of_classes(gc.get_objects(), wanted))


def _of_classes(objects: "list[Any]", ids: "Container[int]") -> "Iterator[Any]":
    """Return those of these objects whose class has one of these ids."""
    # Not isinstance: it asks the object, and some warn or import something then. A class has an id without being asked.
    # The loops are those of C.
    return compress(objects, map(ids.__contains__, map(id, map(type, objects))))


def _global_states() -> "dict[str, object]":
    """Return the states of the generators that a module draws from without one of its own."""
    states: "dict[str, object]" = {"random": hash(random.getstate())}
    numpy: "Any" = loaded("numpy.random.mtrand")
    if hasattr(numpy, "_rand"):
        kind, keys, *rest = numpy.get_state()
        states["numpy"] = (kind, keys.tobytes(), *rest)
    torch: "Any" = loaded("torch")
    if hasattr(torch, "default_generator"):
        states["torch"] = torch.default_generator.get_state().numpy().tobytes()
    return states


def _owners_of_torch_generators() -> "set[str]":
    """Return the modules with a generator of torch, which the garbage collector does not list."""
    torch: "Any" = loaded("torch")
    if not hasattr(torch, "default_generator"):
        return set()
    objects, wanted = gc.get_objects(), {id(torch.Generator)}
    found: "dict[int, object]" = {}
    for start in range(0, len(objects), _MAX_HOLDERS):
        held = gc.get_referents(*objects[start : start + _MAX_HOLDERS])
        kept = _of_classes(held, wanted)
        found.update((id(each), each) for each in kept if each is not torch.default_generator)
    return {owner_of(each) for each in found.values()}


def owner_of(thing: object) -> str:
    """Return the name of a module that refers to this, directly or through other objects; empty if there is none."""
    layer: "list[object]" = [thing]
    seen = {id(layer), id(thing)}
    for _ in range(_MAX_OWNER_DISTANCE):
        above = [each for each in gc.get_referrers(*layer) if id(each) not in seen]
        above = [each for each in above if type(each) is not types.FrameType]
        seen.update({id(above)}, map(id, above))
        for each in above:
            name = dict.get(each, "__name__") if type(each) is dict else None
            if type(name) is str and names_of(sys.modules.get(name)) is each:
                return name
        if not above:
            break
        layer = above[:_MAX_OWNERS]
    return ""
