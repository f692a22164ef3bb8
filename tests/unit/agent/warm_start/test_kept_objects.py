"""Objects that keep a function: each gets another one in its place, and no code of the user is called."""

import collections
import copy
import fractions
import functools
import types
from collections.abc import Callable
from typing import Any

import pytest

from elasticjob_agent.user_python.warm_start.elasticjob_warm_start.kept_objects import give_back


def theirs() -> str:
    return "theirs"


class _Slotted:
    __slots__ = ("kept",)


class _Hostile:
    """An object whose own code must not be called."""

    def _fail(self, *arguments: object) -> object:
        raise AssertionError(arguments)

    __getattribute__ = __getattr__ = __setattr__ = __eq__ = __hash__ = __bool__ = _fail  # type: ignore[assignment,misc]


def _function(kept: object) -> object:
    def function(_: int = 1, kept: object = kept) -> object:
        return kept

    return function


def _keyword(kept: object) -> object:
    def function(*, kept: object = kept) -> object:
        return kept

    return function


def _cell(kept: object) -> object:
    return lambda: kept


def _slot(kept: object) -> object:
    slotted = _Slotted()
    slotted.kept = kept  # type: ignore[attr-defined]
    return slotted


def _hostile(kept: object) -> object:
    hostile = object.__new__(_Hostile)
    object.__setattr__(hostile, "kept", kept)
    return hostile


class _Settings(dict):  # type: ignore[type-arg]
    kept: object


def _both(kept: object) -> object:
    settings = _Settings(kept=kept)
    settings.kept = kept
    return settings


KEEPERS: dict[str, tuple[Callable[[object], object], Callable[..., object]]] = {
    "default": (_function, lambda each: each()),
    "keyword": (_keyword, lambda each: each()),
    "cell": (_cell, lambda each: each()),
    "class": (lambda kept: type("Class", (), {"kept": kept}), lambda each: vars(each)["kept"]),
    "static": (lambda kept: type("Class", (), {"kept": staticmethod(kept)}), lambda each: each.kept),  # type: ignore[arg-type]
    "object": (lambda kept: types.SimpleNamespace(kept=kept), lambda each: each.kept),
    "hostile": (_hostile, lambda each: object.__getattribute__(each, "kept")),
    "slot": (_slot, lambda each: each.kept),
    "subclass": (_both, lambda each: each["kept"] if each["kept"] is each.kept else None),
    "list": (lambda kept: [0, [kept]], lambda each: each[1][0]),
    "tuple": (lambda kept: {"a": (1, (2, kept))}, lambda each: each["a"][1][1]),
    "partial": (lambda kept: functools.partial(print, kept, key=1), lambda each: each.args[0]),
    "partial_function": (lambda kept: functools.partial(kept, 1), lambda each: each.func),  # type: ignore[arg-type,operator,misc]
    "method": (lambda kept: [types.MethodType(kept, 1)], lambda each: each[0].__func__),  # type: ignore[arg-type]
    "set": (lambda kept: {1, kept}, lambda each: (each - {1}).pop()),
    "frozen": (lambda kept: [frozenset([kept])], lambda each: next(iter(each[0]))),
    "key": (lambda kept: {"a": 1, kept: 2, object: 3}, lambda each: list(each)[1] if each[list(each)[1]] == 2 else 0),
    "ordered": (lambda kept: collections.OrderedDict({"a": 1, "kept": kept}), lambda each: each["kept"]),
}


@pytest.mark.parametrize("case", KEEPERS)
def test_what_keeps_a_function_gets_the_other_one(case: str) -> None:
    make, read = KEEPERS[case]

    def ours() -> str:
        return "ours"

    keeper = make(ours)
    assert read(keeper) is ours
    assert give_back([(ours, theirs)]) == []
    assert read(keeper) is theirs


def test_the_methods_of_a_dict_become_those_of_the_other_one() -> None:
    class Ours(dict):  # type: ignore[type-arg]
        def get(self, *arguments: object) -> None:
            raise AssertionError(arguments)

    ours, other = Ours(), {"a": 1}
    kept: Any = [ours.get, ours.setdefault, ours.__len__]
    environment = copy.copy(types.SimpleNamespace(data=ours))
    assert give_back([(ours, other)]) == []
    assert environment.data is other
    assert [kept[0]("a"), kept[1]("a"), kept[2]()] == [1, 1, 1]


def test_a_class_knows_at_once_of_another_function() -> None:
    class Keeper:
        def kept(self) -> str:
            return "ours"

    keeper, ours = Keeper(), Keeper.__dict__["kept"]
    assert [keeper.kept() for _ in range(100)] == ["ours"] * 100
    assert give_back([(ours, lambda _: "theirs")]) == []
    assert [keeper.kept() for _ in range(100)] == ["theirs"] * 100


@pytest.mark.parametrize(
    "make",
    [
        lambda ours: collections.OrderedDict({ours: 1}),
        lambda ours: {ours: 1, (1,): 2},
        functools.lru_cache,
        property,
        lambda ours: {fractions.Fraction(1): ours},
        collections.namedtuple("Pair", "kept"),  # noqa: PYI024
    ],
    ids=["ordered", "key", "cache", "property", "foreign key", "namedtuple"],
)
def test_an_object_that_cannot_change_is_returned(make: Callable[[object], object]) -> None:
    def ours() -> str:
        return "ours"

    keeper = make(ours)
    assert [each is keeper for each in give_back([(ours, theirs)])] == [True]
