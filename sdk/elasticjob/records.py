"""What an API server says of a job, as the dataclasses of the contract.

Fields that this version does not know are left out: a newer operator or CRD must not make a job unreadable for an
older program. What is written by people is read strictly instead (`manifests`).
"""

import dataclasses
import functools
import types
import typing
from collections.abc import Mapping
from typing import Any, TypeVar

from elasticjob.errors import Unreadable
from elasticjob_api import codec
from elasticjob_api.errors import CodecError

T = TypeVar("T")


def read_known(cls: type[T], value: Any, path: str) -> T:
    """`value` as a `cls`, without what it does not have; raises Unreadable naming the field."""
    try:
        return codec.read(cls, _known(cls, value if value is not None else {}), path)
    except CodecError as error:
        cure = "it is of another version of ElasticJob: install the same version of elasticjob as the operator's"
        raise Unreadable(f"{error}; {cure}") from error


@functools.cache
def _hints(cls: type) -> dict[str, Any]:
    hints = typing.get_type_hints(cls)
    return {codec.json_name(field.name): hints[field.name] for field in dataclasses.fields(cls)}


def _known(hint: Any, value: Any) -> Any:
    if isinstance(hint, type) and dataclasses.is_dataclass(hint) and isinstance(value, Mapping):
        hints = _hints(hint)
        return {name: _known(hints[name], item) for name, item in value.items() if name in hints}
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is tuple and isinstance(value, list):
        return [_known(arguments[0], item) for item in value]
    if origin in {types.UnionType, typing.Union}:
        return _known(next((each for each in arguments if dataclasses.is_dataclass(each)), None), value)
    return value
