"""Classes that are made quickly behave in everything as those that are made as ever."""

import copy
import dataclasses
import pickle
from dataclasses import dataclass, field
from typing import Any

import pytest

from elasticjob_agent.lazy_dataclasses import lazy_methods


@dataclass(frozen=True, slots=True)
class Ordinary:
    """Made as ever."""

    name: str
    sizes: tuple[int, ...] = ()
    note: str = field(default="", compare=False, repr=False)


with lazy_methods():

    @dataclass(frozen=True, slots=True)
    class Quick:
        """Made quickly, of the same fields."""

        name: str
        sizes: tuple[int, ...] = ()
        note: str = field(default="", compare=False, repr=False)

    @dataclass
    class Mutable:
        """Neither frozen nor hashable."""

        name: str

    class Heir(Quick):
        """Inherits everything."""

    @dataclass(frozen=True, slots=True, kw_only=True, order=True)
    class Ordered(Quick):
        """Has fields of its own, by name only, and what follows from them."""

        level: int = 3
        twice: int = field(init=False)

        def __post_init__(self) -> None:
            """Frozen, and not finished."""
            object.__setattr__(self, "twice", 2 * self.level)


METHODS = ("__init__", "__repr__", "__eq__", "__hash__", "__setattr__", "__delattr__")


@pytest.mark.parametrize("_time", ["the first time", "again"])
def test_two_of_equal_fields_are_equal_and_hash_alike(_time: str) -> None:
    assert Quick("a", (1,), "x") == Quick("a", (1,), "y")
    others: list[object] = [Quick("b"), Ordinary("a")]
    assert Quick("a") not in others
    assert hash(Quick("a", (1,))) == hash(Ordinary("a", (1,)))


@pytest.mark.parametrize("_time", ["the first time", "again"])
def test_it_is_shown_as_ever(_time: str) -> None:
    assert repr(Quick("a", (1,), "x")) == "Quick(name='a', sizes=(1,))"


@pytest.mark.parametrize("_time", ["the first time", "again"])
def test_a_frozen_one_stays_as_it_is(_time: str) -> None:
    quick: Any = Quick("a")
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot assign to field 'name'"):
        quick.name = "b"
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot delete field 'name'"):
        del quick.name


def test_one_that_is_not_frozen_can_be_changed_and_not_be_hashed() -> None:
    mutable = Mutable("a")
    mutable.name = "b"
    assert mutable == Mutable("b")
    with pytest.raises(TypeError, match="unhashable"):
        hash(mutable)


def test_an_heir_that_is_asked_first_behaves_as_ever() -> None:
    assert Heir("a") == Heir("a")
    assert Heir("a") != Quick("a")
    assert repr(Heir("a")) == "Heir(name='a', sizes=())"


def test_a_class_of_more_fields_is_filled_checked_and_ordered() -> None:
    made: Any = Ordered
    assert (made("a", level=2).twice, made("a").twice) == (4, 6)
    assert made("a", level=2) < made("a")
    with pytest.raises(TypeError, match="unexpected keyword argument 'size'"):
        made("a", size=1)
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'name'"):
        made()


def test_it_is_copied_replaced_and_pickled() -> None:
    quick = Quick("a", (1,), "x")
    assert dataclasses.replace(quick, name="b") == Quick("b", (1,))
    assert copy.copy(quick) == pickle.loads(pickle.dumps(quick)) == quick


@pytest.mark.parametrize("name", METHODS)
def test_a_method_is_known_by_the_same_name(name: str) -> None:
    assert getattr(Quick, name).__qualname__ == f"Quick.{name}"


def test_what_stands_for_a_method_gives_way_to_it() -> None:
    with lazy_methods():

        @dataclass(frozen=True)
        class Fresh:
            name: str

    before = Fresh.__eq__
    assert Fresh("a") == Fresh("a")
    assert (Fresh.__eq__ is before) == (not hasattr(dataclasses, "_create_fn"))


def test_what_is_made_afterwards_is_made_as_ever() -> None:
    maker = getattr(dataclasses, "_create_fn", None)
    with pytest.raises(KeyError), lazy_methods():
        raise KeyError
    assert getattr(dataclasses, "_create_fn", None) is maker
