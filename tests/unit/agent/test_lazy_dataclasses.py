"""Classes with lazy methods behave like ordinary dataclasses."""

import copy
import dataclasses
import pickle
from dataclasses import dataclass, field
from typing import Any

import pytest

from elasticjob_agent.lazy_dataclasses import lazy_methods


@dataclass(frozen=True, slots=True)
class Ordinary:
    """A dataclass with ordinary methods."""

    name: str
    sizes: tuple[int, ...] = ()
    note: str = field(default="", compare=False, repr=False)


with lazy_methods():

    @dataclass(frozen=True, slots=True)
    class Quick:
        """A dataclass with the same fields and lazy methods."""

        name: str
        sizes: tuple[int, ...] = ()
        note: str = field(default="", compare=False, repr=False)

    @dataclass
    class Mutable:
        """A dataclass that is neither frozen nor hashable."""

        name: str

    class Heir(Quick):
        """A subclass without fields of its own."""

    @dataclass(frozen=True, slots=True, kw_only=True, order=True)
    class Ordered(Quick):
        """A subclass with keyword-only fields, and one that is computed."""

        level: int = 3
        twice: int = field(init=False)

        def __post_init__(self) -> None:
            """Set the computed field, although the class is frozen."""
            object.__setattr__(self, "twice", 2 * self.level)


METHODS = ("__init__", "__repr__", "__eq__", "__hash__", "__setattr__", "__delattr__")


@pytest.mark.parametrize("_time", ["the first time", "again"])
def test_instances_with_equal_fields_are_equal_and_hash_alike(_time: str) -> None:
    assert Quick("a", (1,), "x") == Quick("a", (1,), "y")
    others: list[object] = [Quick("b"), Ordinary("a")]
    assert Quick("a") not in others
    assert hash(Quick("a", (1,))) == hash(Ordinary("a", (1,)))


@pytest.mark.parametrize("_time", ["the first time", "again"])
def test_the_repr_is_that_of_an_ordinary_dataclass(_time: str) -> None:
    assert repr(Quick("a", (1,), "x")) == "Quick(name='a', sizes=(1,))"


@pytest.mark.parametrize("_time", ["the first time", "again"])
def test_a_frozen_instance_cannot_be_changed(_time: str) -> None:
    quick: Any = Quick("a")
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot assign to field 'name'"):
        quick.name = "b"
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot delete field 'name'"):
        del quick.name


def test_a_mutable_instance_can_be_changed_and_not_hashed() -> None:
    mutable = Mutable("a")
    mutable.name = "b"
    assert mutable == Mutable("b")
    with pytest.raises(TypeError, match="unhashable"):
        hash(mutable)


def test_a_subclass_that_is_used_first_behaves_the_same() -> None:
    assert Heir("a") == Heir("a")
    assert Heir("a") != Quick("a")
    assert repr(Heir("a")) == "Heir(name='a', sizes=())"


def test_a_class_with_more_fields_is_filled_checked_and_ordered() -> None:
    made: Any = Ordered
    assert (made("a", level=2).twice, made("a").twice) == (4, 6)
    assert made("a", level=2) < made("a")
    with pytest.raises(TypeError, match="unexpected keyword argument 'size'"):
        made("a", size=1)
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'name'"):
        made()


def test_an_instance_can_be_copied_replaced_and_pickled() -> None:
    quick = Quick("a", (1,), "x")
    assert dataclasses.replace(quick, name="b") == Quick("b", (1,))
    assert copy.copy(quick) == pickle.loads(pickle.dumps(quick)) == quick


@pytest.mark.parametrize("name", METHODS)
def test_a_method_has_its_usual_qualified_name(name: str) -> None:
    assert getattr(Quick, name).__qualname__ == f"Quick.{name}"


def test_a_placeholder_is_replaced_by_the_method() -> None:
    with lazy_methods():

        @dataclass(frozen=True)
        class Fresh:
            name: str

    before = Fresh.__eq__
    assert Fresh("a") == Fresh("a")
    assert (Fresh.__eq__ is before) == (not hasattr(dataclasses, "_create_fn"))


def test_dataclasses_are_ordinary_afterwards() -> None:
    maker = getattr(dataclasses, "_create_fn", None)
    with pytest.raises(KeyError), lazy_methods():
        raise KeyError
    assert getattr(dataclasses, "_create_fn", None) is maker
