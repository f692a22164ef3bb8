"""The fields of a CRD as paths, to compare two versions of it."""

from collections.abc import Iterator, Mapping
from typing import Any

from elasticjob_api import constants
from elasticjob_cli.commands.crd import crd_text


def own_fields() -> frozenset[str]:
    """Return the fields of the CRD that this program contains."""
    import yaml  # noqa: PLC0415  # in an extra, and only here

    return fields_of(yaml.safe_load(crd_text()))


def fields_of(crd: Mapping[str, Any]) -> frozenset[str]:
    """Return the fields of this program's API version; empty if the CRD does not have that version."""
    versions = {each["name"]: each for each in crd["spec"]["versions"]}
    if constants.VERSION not in versions:
        return frozenset()
    schema = versions[constants.VERSION]["schema"]["openAPIV3Schema"]
    return frozenset(path for top in ("spec", "status") for path in _paths(schema["properties"].get(top, {}), top))


def _paths(schema: Mapping[str, Any], path: str) -> Iterator[str]:
    for name, inner in (schema.get("properties") or {}).items():
        yield f"{path}.{name}"
        yield from _paths(inner, f"{path}.{name}")
    if isinstance(schema.get("items"), Mapping):
        yield from _paths(schema["items"], f"{path}[]")
