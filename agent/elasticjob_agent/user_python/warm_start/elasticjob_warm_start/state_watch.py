"""Watch the functions that give a global random generator another state.

An import may save the state, draw, and put the state back. The states before and after are then equal, and only the
call is left as a sign.
"""

import functools
import random
import sys

from .entry import names_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_SETTERS = {
    "random": ("setstate",),
    "numpy.random.mtrand": ("set_state", "set_bit_generator"),
    "torch": ("set_rng_state", "manual_seed"),
    "torch.random": ("set_rng_state", "manual_seed"),
}
"""Module → its functions that can restore a state. The seed that torch has at first may be set again."""


class StateWatch:
    """Functions in the places of those that set a state. Each notes its call."""

    def __init__(self) -> None:
        self.replaced: "list[tuple[object, object]]" = []
        """Each function of ours, with the one in whose place it is."""
        self._were_called = False
        self._method = random.Random.setstate
        self._owner = random._inst
        self._noting = random.Random.setstate = self._noting_method()  # type: ignore[method-assign]
        self.replaced.append((self._noting, self._method))
        self.watch()

    def watch(self) -> None:
        """Replace the functions of those modules that are imported by now."""
        for name, setters in _SETTERS.items():
            functions = names_of(sys.modules.get(name))
            for setter in setters:
                if setter in functions:
                    functions[setter] = self._ours(functions[setter])

    def take_call(self) -> bool:
        """Return whether one of the functions was called since the last time."""
        were_called, self._were_called = self._were_called, False
        return were_called

    def stop(self) -> None:
        """Give the method back; those who know all modules give back the functions in `replaced`."""
        if random.Random.setstate is self._noting:  # an import may have put another one in its place
            random.Random.setstate = self._method  # type: ignore[method-assign]

    def _ours(self, original: "Callable[..., Any]") -> object:
        """Return the function for this place: one function may be in several, and ours be there already."""

        def noting(*arguments: "Any", **options: "Any") -> "Any":
            self._were_called = True
            return original(*arguments, **options)

        for ours, theirs in self.replaced:
            if original is ours or original is theirs:
                return ours
        ours = functools.wraps(original)(noting)
        self.replaced.append((ours, original))
        return ours

    def _noting_method(self) -> "Any":
        original, owner = self._method, self._owner

        @functools.wraps(original)
        def setstate(generator: random.Random, state: "Any") -> None:
            if generator is owner:
                self._were_called = True
            original(generator, state)

        return setstate
