"""Removal of status fields that an older CRD does not declare; the API server's error messages name them.

An apply with one field that the schema lacks is refused as a whole. Only that field is left out, at any depth: the
fields beside it (such as the exit code beside a new text) are still written.
"""

import re
from collections.abc import Mapping
from typing import Any

Path = tuple[str, ...]
"""Names of fields below the status. Indices of lists are left out: a field is unknown in all items or in none."""

_UNKNOWN_FIELD = re.compile(r"\.status((?:\.\w+|\[[^\]]*\])+): field not declared in schema")
_ITEM = re.compile(r"\[[^\]]*\]")


def is_unknown_field(message: str) -> bool:
    """Return whether an error message is about a status field that the CRD does not declare."""
    return _UNKNOWN_FIELD.search(message) is not None


class UnknownFields:
    """The fields that one API server does not know."""

    def __init__(self) -> None:
        self._paths: set[Path] = set()

    def learn(self, message: str) -> list[str]:
        """Record the fields that an error message names; return the new ones, such as `lastFailure.stderrTail`."""
        named = {tuple(_ITEM.sub("", found).strip(".").split(".")) for found in _UNKNOWN_FIELD.findall(message)}
        new = named - self._paths
        self._paths |= new
        return sorted(".".join(path) for path in new)

    def forget(self) -> None:
        """Forget all fields, because the CRD may have been updated."""
        self._paths.clear()

    def without_unknown(self, status: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the status without unknown fields; the same object if none are known."""
        known: Any = status
        for path in self._paths:
            known = _without(known, path)
        found: Mapping[str, Any] = known
        return found


def _without(value: Any, path: Path) -> Any:
    if isinstance(value, list | tuple):
        return [_without(item, path) for item in value]
    first, *rest = path
    if not isinstance(value, Mapping) or first not in value:
        return value
    others = {name: item for name, item in value.items() if name != first}
    return {**others, first: _without(value[first], tuple(rest))} if rest else others
