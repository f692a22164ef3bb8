"""PURE: what of a status an older CRD does not know, learned from the API server's complaints, and left out.

Apply refuses a whole body for one field that the schema does not have. Only that field goes, however deep it is:
what stands beside it (the exit code beside a text that is new) is worth as much as before.
"""

import re
from collections.abc import Mapping
from typing import Any

Path = tuple[str, ...]
"""Names of fields below the status; items of lists have none, what holds for one holds for all."""

_UNKNOWN_FIELD = re.compile(r"\.status((?:\.\w+|\[[^\]]*\])+): field not declared in schema")
_ITEM = re.compile(r"\[[^\]]*\]")


def is_unknown_field(complaint: str) -> bool:
    """The API server complains of a field of the status that the CRD does not have."""
    return _UNKNOWN_FIELD.search(complaint) is not None


class UnknownFields:
    """The fields that one API server does not know."""

    def __init__(self) -> None:
        self._paths: set[Path] = set()

    def learn(self, complaint: str) -> list[str]:
        """Paths it names that were not known, as `lastFailure.stderrTail`; none: it is about something else."""
        named = {tuple(_ITEM.sub("", found).strip(".").split(".")) for found in _UNKNOWN_FIELD.findall(complaint)}
        news = named - self._paths
        self._paths |= news
        return sorted(".".join(path) for path in news)

    def forget(self) -> None:
        """It may be a new CRD."""
        self._paths.clear()

    def without_unknown(self, status: Mapping[str, Any]) -> Mapping[str, Any]:
        """The status without them; itself when there are none."""
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
