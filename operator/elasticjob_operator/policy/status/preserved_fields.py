"""Status fields of a newer operator, which this version preserves when it writes the status.

A field at the top level is preserved. A field of a nested object is preserved while the known fields of that object do
not change. Otherwise it may be wrong, for example for a node that has failed since.
"""

import dataclasses
import functools
import types
import typing
from collections.abc import Mapping
from typing import Any

from elasticjob_api.codec import json_name
from elasticjob_api.status import JobStatus


def with_preserved_fields(stored: Mapping[str, Any], written: Mapping[str, Any]) -> dict[str, Any]:
    """Return the status to write: `written`, with the fields of `stored` that this version does not know."""
    hints = _hints(JobStatus)
    unknown = {name: value for name, value in stored.items() if name not in hints}
    return unknown | {name: _merge_unknown(hints[name], stored.get(name), value) for name, value in written.items()}


def _merge_unknown(hint: Any, stored: Any, written: Any) -> Any:
    if (item := _item_of(hint)) is not None and isinstance(stored, list):
        return [next((each for each in stored if _known(item, each) == value), value) for value in written]
    return stored if stored is not None and _known(hint, stored) == written else written


def _known(hint: Any, value: Any) -> Any:
    """Return `value` without the fields that the class does not have."""
    cls = _class_of(hint)
    if cls is not None and isinstance(value, Mapping):
        hints = _hints(cls)
        return {name: _known(hints[name], each) for name, each in value.items() if name in hints}
    if (item := _item_of(hint)) is not None and isinstance(value, list):
        return [_known(item, each) for each in value]
    return value


@functools.cache
def _hints(cls: type) -> dict[str, Any]:
    hints = typing.get_type_hints(cls)
    return {json_name(field.name): hints[field.name] for field in dataclasses.fields(cls)}


def _item_of(hint: Any) -> Any:
    """Return `X` for `tuple[X, ...]` where `X` is a dataclass."""
    found = typing.get_args(hint)[0] if typing.get_origin(hint) is tuple else None
    return found if dataclasses.is_dataclass(found) else None


def _class_of(hint: Any) -> type | None:
    """Return `X` for `X` and `X | None` where `X` is a dataclass."""
    choices = typing.get_args(hint) if typing.get_origin(hint) in {types.UnionType, typing.Union} else (hint,)
    return next((each for each in choices if isinstance(each, type) and dataclasses.is_dataclass(each)), None)
