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
    assert codec.read(Whole, {"name": "w", "maybe": None}).maybe is None


def fault(value: Any) -> tuple[str, str]:
    with pytest.raises(CodecError) as caught:
        codec.read(Whole, value, "spec")
    return caught.value.path, caught.value.message


KNOWN = "byName, count, free, maybe, name, on, parts, ratio, waitSeconds"


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
