"""An API server's objects of a job, as the dataclasses of the contract.

Fields that this version does not know are left out: a newer operator or CRD must not make a job unreadable for an
older program. What is written by people is read strictly instead (`manifests`).
"""

from typing import Any, TypeVar

from elasticjob.errors import Unreadable
from elasticjob_api import codec
from elasticjob_api.errors import CodecError

T = TypeVar("T")


def read_known(cls: type[T], value: Any, path: str) -> T:
    """`value` as a `cls`, without what it does not have; raises Unreadable naming the field."""
    try:
        return codec.read_known(cls, value if value is not None else {}, path)
    except CodecError as error:
        cure = "it is of another version of ElasticJob: install the same version of elasticjob as the operator's"
        raise Unreadable(f"{error}; {cure}") from error
