"""JSON to dataclasses: every error names the field's path, the cause and the cure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Literal

import pytest

from elasticjob_api import codec
from elasticjob_api.errors import CodecError


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


@dataclass(frozen=True)
class Part:
    size: int
    colour: Colour = Colour.RED


@dataclass(frozen=True)
class Whole:
    name: str
    parts: tuple[Part, ...] = ()
    by_name: Mapping[str, Part] = field(default_factory=dict)
    count: int | Literal["auto"] = "auto"
    ratio: float = 0.5
    wait_s: float = 1.0
    on: bool = False
    mode: Literal["Auto", "Off"] | None = None
    maybe: Part | None = None
    free: Any = None


def test_all_kinds_of_fields_are_read() -> None:
    value = {
        "name": "w", "parts": [{"size": 1}, {"size": 2, "colour": "blue"}], "byName": {"a": {"size": 3}}, "count": 4,
        "ratio": 1, "waitSeconds": 2.5, "on": True, "maybe": {"size": 5}, "free": {"any": ["thing", None]},
    }  # fmt: skip
    parts = (Part(1), Part(2, Colour.BLUE))
    expected = Whole("w", parts, {"a": Part(3)}, 4, 1.0, 2.5, on=True, maybe=Part(5), free={"any": ["thing", None]})
    assert codec.read(Whole, value) == expected
    assert codec.read(Whole, codec.write(expected)) == expected


def test_null_stands_for_nothing_where_nothing_is_allowed() -> None:
    assert codec.read(Whole, {"name": "w", "maybe": None, "mode": None}) == Whole("w")


def fault(value: Any) -> tuple[str, str]:
    with pytest.raises(CodecError) as caught:
        codec.read(Whole, value, "spec")
    return caught.value.path, caught.value.message


KNOWN = "byName, count, free, maybe, mode, name, on, parts, ratio, waitSeconds"


@pytest.mark.parametrize(
    ("value", "path", "message"),
    [
        pytest.param([], "spec", "[] is not an object", id="a list for an object"),
        pytest.param({}, "spec.name", "is required", id="a field missing"),
        pytest.param({"nmae": "w"}, "spec.nmae", "unknown field; did you mean name?", id="a slip of the pen"),
        pytest.param({"colour": 1}, "spec.colour", f"unknown field (known: {KNOWN})", id="a foreign field"),
        pytest.param({"name": 7}, "spec.name", "7 is not a string", id="a number for a string"),
        pytest.param({"name": None}, "spec.name", "None is not a string", id="null for a string"),
        pytest.param({"name": "w", "parts": {}}, "spec.parts", "{} is not a list", id="an object for a list"),
        pytest.param({"name": "w", "parts": [{"size": "x"}]}, "spec.parts[0].size", "'x' is not a whole number",
                     id="deep in a list"),
        pytest.param({"name": "w", "parts": [{"size": True}]}, "spec.parts[0].size", "True is not a whole number",
                     id="true is no number"),
        pytest.param({"name": "w", "parts": [{"size": 1.5}]}, "spec.parts[0].size", "1.5 is not a whole number",
                     id="a fraction"),
        pytest.param({"name": "w", "byName": {"a": {"size": 1, "colour": "mauve"}}}, "spec.byName.a.colour",
                     "'mauve' is not one of red, blue", id="an unknown choice"),
        pytest.param({"name": "w", "count": "many"}, "spec.count", "'many' is not one of auto", id="an unknown word"),
        pytest.param({"name": "w", "mode": False}, "spec.mode",
                     'False is not one of Auto, Off; YAML reads Off without quotes as false: write "Off"',
                     id="a word that YAML reads as false"),
        pytest.param({"name": "w", "mode": True}, "spec.mode", "True is not one of Auto, Off", id="true for a word"),
        pytest.param({"name": "w", "on": 1}, "spec.on", "1 is not true or false", id="a number for a switch"),
        pytest.param({"name": "w", "ratio": "x"}, "spec.ratio", "'x' is not a number", id="a word for a number"),
        pytest.param({"name": "x" * 3, "on": "y" * 99}, "spec.on", f"'{'y' * 59} is not true or false",
                     id="a long value is cut"),
    ],
)  # fmt: skip
def test_fault(value: Any, path: str, message: str) -> None:
    assert fault(value) == (path, message)


def test_an_error_without_a_path_is_its_message() -> None:
    assert str(CodecError("", "is wrong")) == "is wrong"
    assert str(CodecError("spec.a", "is wrong")) == "spec.a: is wrong"


@pytest.mark.parametrize(
    ("field_name", "json_name"),
    [("name", "name"), ("min_replicas", "minReplicas"), ("join_timeout_s", "joinTimeoutSeconds"), ("a_b_c", "aBC")],
)
def test_names_go_by_rule(field_name: str, json_name: str) -> None:
    assert codec.json_name(field_name) == json_name


def test_defaults_are_left_out_unless_they_are_wanted() -> None:
    assert codec.write(Part(1)) == {"size": 1}
    assert codec.write(Part(1), keep_defaults=True) == {"size": 1, "colour": "red"}


def test_whole_numbers_of_seconds_are_written_as_such() -> None:
    assert codec.write(Whole("w", wait_s=2.0, ratio=0.25)) == {"name": "w", "waitSeconds": 2, "ratio": 0.25}


NEWER = {
    "name": "w", "mood": "good", "parts": [{"size": 1, "shape": "round"}, {"size": 2, "colour": "mauve"}],
    "byName": {"a": {"size": 3, "x": {"y": 1}}}, "count": "some", "maybe": {"size": 5, "z": None}, "free": {"any": 1},
}  # fmt: skip


def test_what_a_newer_version_adds_is_ignored_and_named_at_every_depth() -> None:
    ignored: list[str] = []
    read = codec.read_known(Whole, NEWER, "spec", ignored)
    assert read == Whole("w", (Part(1), Part(2)), {"a": Part(3)}, "auto", maybe=Part(5), free={"any": 1})
    assert ignored == [
        "spec.mood", "spec.parts[0].shape", "spec.parts[1].colour", "spec.byName.a.x", "spec.count", "spec.maybe.z",
    ]  # fmt: skip


def test_the_strict_reader_refuses_the_same() -> None:
    with pytest.raises(CodecError, match=r"^spec\.mood: unknown field"):
        codec.read(Whole, NEWER, "spec")


@dataclass(frozen=True)
class Chosen:
    colour: Colour
    name: str = "n"


@dataclass(frozen=True)
class Rules:
    rules: tuple[Chosen, ...] = ()


def test_a_list_with_an_item_that_needs_an_unknown_word_is_left_out_as_a_whole() -> None:
    """Order may matter in it: without one rule another one would match."""
    ignored: list[str] = []
    value = {"rules": [{"colour": "mauve"}, {"colour": "red"}]}
    assert codec.read_known(Rules, value, "spec", ignored) == Rules()
    assert ignored == ["spec.rules[0].colour"]


@pytest.mark.parametrize(
    "value",
    [[], {"name": 7}, {"name": "w", "parts": {}}, {"name": "w", "on": 1}, {"name": "w", "count": [1]}, {}],
)
def test_what_no_version_writes_is_an_error_to_the_tolerant_reader_too(value: Any) -> None:
    with pytest.raises(CodecError):
        codec.read_known(Whole, value)


class Weather(Enum):
    SUN = "sun"
    OTHER = "other"

    @classmethod
    def _missing_(cls, _value: object) -> "Weather":
        return cls.OTHER


@dataclass(frozen=True)
class Day:
    weather: Weather
    night: Weather | str = Weather.SUN


def test_an_enum_that_has_a_member_for_unknown_words_takes_it() -> None:
    ignored: list[str] = []
    assert codec.read_known(Day, {"weather": "hail"}, "", ignored) == Day(Weather.OTHER)
    assert ignored == ["weather"]
    with pytest.raises(CodecError, match="'hail' is not one of sun, other"):
        codec.read(Day, {"weather": "hail"})


def test_a_field_that_may_be_a_text_keeps_an_unknown_word() -> None:
    assert codec.read_known(Rest, {"colour": "mauve"}) == Rest("mauve")
    assert codec.read_known(Rest, {"colour": "blue"}) == Rest(Colour.BLUE)


@dataclass(frozen=True)
class Rest:
    colour: Colour | str = Colour.RED


def test_of_a_broken_value_all_that_fits_is_read() -> None:
    ignored: list[str] = []
    value = {
        "name": "w", "parts": [{"size": "x"}, 5, {"size": 2, "colour": ["?"]}], "byName": {"a": None, "b": {"size": 1}},
        "count": 1.5, "ratio": {}, "waitSeconds": 2, "on": None, "maybe": {"colour": "red"}, "new": 1,
    }  # fmt: skip
    assert codec.read_what_fits(Whole, value, "spec", ignored) == Whole("w", (Part(2),), {"b": Part(1)}, wait_s=2.0)
    assert ignored == [
        "spec.parts[0].size", "spec.parts[1]", "spec.parts[2].colour", "spec.byName.a", "spec.count", "spec.ratio",
        "spec.on", "spec.maybe.size", "spec.new",
    ]  # fmt: skip


@pytest.mark.parametrize("value", [None, 5, [], {}, {"name": 7}])
def test_without_its_required_fields_nothing_can_be_read(value: Any) -> None:
    with pytest.raises(CodecError):
        codec.read_what_fits(Whole, value)
