"""Merge what the workers of several ranks or nodes have recorded of one script.

All import the same modules, usually. But some ranks alone may set a variable, or import a module in a context.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from elasticjob_agent.warm_start.import_source import ImportSource
from elasticjob_api.import_profile import CONTEXT_KINDS, ImportProfile


class ModuleOrder:
    """The order in which one worker has begun to import its modules."""

    def __init__(self, modules: Iterable[str]) -> None:
        self._names = ["", *modules]
        self.places = {name: place for place, name in enumerate(self._names)}
        """Each module with its place; the begin, which has no name, is the first."""

    def earlier(self, one: str, other: str) -> str:
        """Return that of these modules which comes earlier here; one that is not here counts as the begin."""
        return self._names[min(self.places.get(one, 0), self.places.get(other, 0))]

    def common(self, other: "ModuleOrder", last: str, *, is_cut_off: bool = False) -> str:
        """Return the last module here up to which the other worker has begun none after `last`.

        `is_cut_off` is whether it may have begun more of them later.
        """
        most = other.places.get(last, 0)
        without = most + 1 if is_cut_off else 0
        for place, name in enumerate(self._names):
            if other.places.get(name, without) > most:
                return self._names[place - 1]
        return self._names[-1]

    def count_after(self, last: str, among: Collection[str]) -> int:
        """Return how many of these modules come after `last`."""
        place = self.places.get(last, 0)
        return sum(self.places.get(name, 0) > place for name in among)


def merge_contexts(*each: Mapping[str, str]) -> dict[str, str]:
    """Return the contexts of all; of several for one module, that which excludes most."""
    found: dict[str, str] = {}
    for contexts in each:
        for name, text in contexts.items():
            found[name] = min(found.get(name, text), text, key=_exclusion)
    return found


def _exclusion(text: str) -> int:
    return CONTEXT_KINDS.index(text.partition(":")[0])


def find_change(judged: ImportSource, now: ImportSource, begun: Iterable[str]) -> str:
    """Return a variable or a module of which a zygote had to know more, which was judged by `judged`; else nothing.

    That is a variable which a worker has set before an import of that zygote, or an import in a context. `begun` has
    the modules of the first worker.
    """
    order, names = ModuleOrder(begun), judged.modules
    for variable, (module, _) in now.variables.items():
        known = judged.variables.get(variable)
        before = 0 if known is None else order.count_after(known[0], names)
        if order.count_after(module, names) > before:
            return variable
    for name, text in now.contexts.items():
        kind, _, outer = text.partition(":")
        if judged.contexts.get(name) != text and (outer if kind == "beside" else name) in names:
            return name
    return ""


def add_to_profile(profile: ImportProfile, other: ImportProfile) -> ImportProfile:
    """Return this profile with the variables and contexts of the other node, and with what it denies for them.

    A profile of another interpreter adds nothing.
    """
    if profile.interpreter != other.interpreter:
        return profile
    order, theirs = ModuleOrder(profile.modules), ModuleOrder(other.modules)
    variables = dict(profile.variables)
    for name, (module, _) in other.variables.items():
        place = order.common(theirs, module)
        variables[name] = (order.earlier(place, variables.get(name, (place, ""))[0]), "")
    contexts = merge_contexts(profile.contexts, other.contexts)
    added = variables != dict(profile.variables) or contexts != dict(profile.contexts)
    return replace(
        profile,
        variables=variables,
        given_variables=tuple(sorted({*profile.given_variables, *other.given_variables})),
        contexts=contexts,
        known_variables=tuple(sorted({*profile.known_variables, *other.known_variables})),
        denied=tuple(sorted({*profile.denied, *other.denied})) if added else profile.denied,
    )
