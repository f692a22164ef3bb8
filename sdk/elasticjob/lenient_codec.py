"""Read objects of the API server as dataclasses of `elasticjob_api`; ignore fields that this version does not know.

An older program must be able to read the jobs of a newer operator
or CRD. Manifests of users are parsed strictly instead (`manifests`).
"""

from typing import Any, TypeVar

from elasticjob.errors import Unreadable
from elasticjob_api import codec
from elasticjob_api.errors import CodecError

T = TypeVar("T")


def read_known(cls: type[T], value: Any, path: str) -> T:
    """Return `value` as a `cls`, without fields that it does not have; raise Unreadable, which names the field."""
    try:
        return codec.read_known(cls, value if value is not None else {}, path)
    except CodecError as error:
        cure = "it is of another version of ElasticJob: install the same version of elasticjob as the operator's"
        raise Unreadable(f"{error}; {cure}") from error
