"""The schema of the CRD against `elasticjob_api.spec` and `.status`: the same names, types, choices, requirements.

Needs no server. Defaults are compared where the API server fills them in (`test_crd_accepts.py`).
"""

import dataclasses
import types
import typing
from collections.abc import Iterator, Mapping
from enum import Enum
from pathlib import Path
from typing import Any, Literal

import yaml

from elasticjob_api import names
from elasticjob_api.codec import json_name
from elasticjob_api.spec import JobSpec
from elasticjob_api.status import JobStatus

CRD = yaml.safe_load((Path(__file__).resolve().parents[3] / "crds" / "elasticjob.yaml").read_text())
SCHEMA = CRD["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]

CRD_ONLY_CHOICES = {
    "spec.gracefulShutdown.signal",  # a text to the dataclass: signals have one table, in another module
    "spec.failurePolicy.rules.onPodConditions.status",
}
"""Texts of the dataclasses of which the CRD allows only some."""

CRD_ONLY_REQUIRED = {
    "spec.failurePolicy.rules.onExitCodes.values",
    "status.conditions.message",
    "status.conditions.lastTransitionTime",
}
"""Fields that a manifest must have though the dataclass has a default: no exit code, a condition without its time."""

_INT_OR_STRING = "x-kubernetes-int-or-string"
_SCALARS = {bool: "boolean", int: "integer", str: "string"}


@dataclasses.dataclass(frozen=True)
class Pair:
    """A field of a dataclass and the schema of the same name, if there is one."""

    path: str
    hint: Any
    required: bool
    schema: Mapping[str, Any] | None
    listed_as_required: bool


def pairs(cls: type, schema: Mapping[str, Any], path: str) -> Iterator[Pair]:
    """Every field of `cls` and of the dataclasses in it."""
    hints = typing.get_type_hints(cls)
    for field in dataclasses.fields(cls):
        name, hint = json_name(field.name), without_none(hints[field.name])
        required = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        inner = schema["properties"].get(name)
        yield Pair(f"{path}.{name}", hint, required, inner, name in schema.get("required", ()))
        nested = item_of(hint)
        if inner is not None and dataclasses.is_dataclass(nested):
            yield from pairs(typing.cast("type", nested), inner.get("items", inner), f"{path}.{name}")


def without_none(hint: Any) -> Any:
    """`X` for `X | None`."""
    choices = [choice for choice in typing.get_args(hint) if choice is not type(None)]
    return choices[0] if isinstance(hint, types.UnionType) and len(choices) == 1 else hint


def item_of(hint: Any) -> Any:
    """`X` for `tuple[X, ...]`."""
    return typing.get_args(hint)[0] if typing.get_origin(hint) is tuple else hint


def properties(schema: Mapping[str, Any], path: str) -> Iterator[str]:
    """The path of every property, but for the inside of the template."""
    for name, inner in schema.get("properties", {}).items():
        yield f"{path}.{name}"
        if f"{path}.{name}" != "spec.template":
            yield from properties(inner.get("items", inner), f"{path}.{name}")


def type_in(schema: Mapping[str, Any] | None) -> dict[str, Any]:
    """What the schema says of a type."""
    return {key: (schema or {})[key] for key in ("type", "enum", _INT_OR_STRING) if key in (schema or {})}


def type_of(hint: Any) -> dict[str, Any]:
    """What the schema must say of a type; a duration is a whole number of seconds, as Kubernetes' are."""
    if typing.get_origin(hint) is Literal:
        return {"type": "string", "enum": list(typing.get_args(hint))}
    if isinstance(hint, type) and issubclass(hint, Enum):
        return {"type": "string", "enum": [member.value for member in hint]}
    if typing.get_origin(hint) in {types.UnionType, typing.Union}:
        return {_INT_OR_STRING: True}
    if typing.get_origin(hint) is tuple:
        return {"type": "array"}
    return {"type": "integer" if hint is float else _SCALARS.get(hint, "object")}


FIELDS = [*pairs(JobSpec, SCHEMA["spec"], "spec"), *pairs(JobStatus, SCHEMA["status"], "status")]


def test_both_have_the_same_fields() -> None:
    in_schema = {*properties(SCHEMA["spec"], "spec"), *properties(SCHEMA["status"], "status")}
    assert in_schema == {field.path for field in FIELDS}


def test_every_field_has_the_same_type_in_both() -> None:
    said = {field.path: type_in(field.schema) for field in FIELDS}
    for path in CRD_ONLY_CHOICES:
        assert said[path].pop("enum")
    assert said == {field.path: type_of(field.hint) for field in FIELDS}


def test_the_same_fields_are_required_in_both() -> None:
    required = {field.path for field in FIELDS if field.required}
    assert {field.path for field in FIELDS if field.listed_as_required} == required | CRD_ONLY_REQUIRED


def test_every_field_has_a_description() -> None:
    assert [field.path for field in FIELDS if not (field.schema or {}).get("description")] == []


def test_the_names_of_the_resource_are_those_of_the_contract() -> None:
    spec = CRD["spec"]
    said = (spec["group"], spec["versions"][0]["name"], spec["names"]["kind"], spec["names"]["plural"])
    assert said == (names.GROUP, names.VERSION, names.KIND, names.PLURAL)
