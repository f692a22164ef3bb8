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

from elasticjob_api import constants
from elasticjob_api.codec import json_name
from elasticjob_api.spec import JobSpec
from elasticjob_api.status import JobStatus

CRD = yaml.safe_load((Path(__file__).resolve().parents[3] / "crds" / "elasticjob.yaml").read_text())
SCHEMA = CRD["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]

CRD_ONLY_CHOICES = {
    "spec.gracefulShutdown.signal",  # a text for the dataclass: another module has the table of signals
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
    """A field of a dataclass, and the schema of the same name, if there is one."""

    path: str
    hint: Any
    required: bool
    schema: Mapping[str, Any] | None
    listed_as_required: bool


def pairs(cls: type, schema: Mapping[str, Any], path: str) -> Iterator[Pair]:
    """Return every field of `cls` and of the dataclasses in it."""
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
    """Return `X` for `X | None`."""
    choices = [choice for choice in typing.get_args(hint) if choice is not type(None)]
    return choices[0] if isinstance(hint, types.UnionType) and len(choices) == 1 else hint


def item_of(hint: Any) -> Any:
    """Return `X` for `tuple[X, ...]`."""
    return typing.get_args(hint)[0] if typing.get_origin(hint) is tuple else hint


def properties(schema: Mapping[str, Any], path: str) -> Iterator[str]:
    """Return the path of every property, except inside the template."""
    for name, inner in schema.get("properties", {}).items():
        yield f"{path}.{name}"
        if f"{path}.{name}" != "spec.template":
            yield from properties(inner.get("items", inner), f"{path}.{name}")


def type_in(schema: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the type in the schema."""
    return {key: (schema or {})[key] for key in ("type", "enum", _INT_OR_STRING) if key in (schema or {})}


def type_of(hint: Any) -> dict[str, Any]:
    """Return the expected type in the schema; a duration is a whole number of seconds, as in Kubernetes."""
    if typing.get_origin(hint) is Literal:
        return {"type": "string", "enum": list(typing.get_args(hint))}
    if isinstance(hint, type) and issubclass(hint, Enum):
        return {"type": "string", "enum": [member.value for member in hint]}
    if typing.get_origin(hint) in {types.UnionType, typing.Union}:
        return {_INT_OR_STRING: True} if int in typing.get_args(hint) else {"type": "string"}
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


def choices(schema: Mapping[str, Any], path: str) -> Iterator[str]:
    """Return the path of each property with limited values."""
    if "enum" in schema or "pattern" in schema:
        yield path
    for name, inner in schema.get("properties", {}).items():
        yield from choices(inner.get("items", inner), f"{path}.{name}")


def test_no_text_of_a_status_is_limited() -> None:
    """An older CRD must accept values of a newer operator: one unknown value fails the write of the whole status."""
    assert list(choices(SCHEMA["status"], "status")) == []


DEFAULTS = {
    "spec.agent", "spec.agent.logSizeLimit", "spec.agent.mode", "spec.agent.reportPeriodSeconds", "spec.backoffLimit",
    "spec.cleanPodPolicy", "spec.failureGraceSeconds", "spec.failurePolicy.rules.onExitCodes.operator",
    "spec.failurePolicy.rules.onPodConditions.status", "spec.gracefulShutdown", "spec.gracefulShutdown.seconds",
    "spec.gracefulShutdown.signal", "spec.lostPodTimeoutSeconds", "spec.maxRestarts", "spec.nprocPerNode",
    "spec.podReplacementPolicy", "spec.rendezvous", "spec.rendezvous.joinTimeoutSeconds",
    "spec.rendezvous.keepAliveSeconds", "spec.rendezvous.lastCallTimeoutSeconds", "spec.replicas",
    "spec.restartBackoff", "spec.restartBackoff.initialSeconds", "spec.restartBackoff.maxSeconds",
    "spec.restartWindowSeconds", "spec.scaling", "spec.scaling.scaleUpDelaySeconds", "spec.scheduling",
    "spec.scheduling.gang", "spec.stuckPodTimeoutSeconds", "spec.successPolicy", "spec.suspend",
}  # fmt: skip
"""The fields of `spec` with a schema default. Do not add one: the API server writes a default into every stored job,
and an older operator does not know it. A new field that is absent means what the installation has as its default."""


def defaults(schema: Mapping[str, Any], path: str) -> Iterator[str]:
    """Return the path of each property with a default."""
    if "default" in schema:
        yield path
    for name, inner in schema.get("properties", {}).items():
        yield from defaults(inner.get("items", inner), f"{path}.{name}")


def test_no_new_field_of_a_spec_has_a_default() -> None:
    assert set(defaults(SCHEMA["spec"], "spec")) == DEFAULTS


def test_every_field_has_a_description() -> None:
    assert [field.path for field in FIELDS if not (field.schema or {}).get("description")] == []


def test_the_names_of_the_resource_are_those_of_the_contract() -> None:
    spec = CRD["spec"]
    said = (spec["group"], spec["versions"][0]["name"], spec["names"]["kind"], spec["names"]["plural"])
    assert said == (constants.GROUP, constants.VERSION, constants.KIND, constants.PLURAL)
