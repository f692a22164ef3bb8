"""The permissions of a role of etcd, as records that need no client."""

from dataclasses import dataclass
from enum import IntEnum


class Access(IntEnum):
    """etcd's kinds of permission, by its own numbers."""

    READ = 0
    WRITE = 1
    READWRITE = 2


@dataclass(frozen=True, slots=True)
class Permission:
    """Access to one key, or to all from `key` up to `range_end`."""

    key: str
    range_end: str
    access: Access = Access.READWRITE


def of_folder(prefix: str) -> Permission:
    """Return the permission for all access below a prefix that ends with a slash."""
    if not prefix.endswith("/"):
        raise ValueError(f"{prefix!r} does not end with a slash")
    return Permission(prefix, prefix[:-1] + chr(ord("/") + 1))
