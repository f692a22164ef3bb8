"""Errors of data that another component wrote, as one tree.

    ContractError
    ├── InvalidSpec       a manifest that no operator will act on; carries every fault found
    ├── RecordError       an etcd record of another version, or corrupt; readers log the key and ignore it
    └── CodecError        a JSON value that does not fit a dataclass; carries the field's path
        └── UnknownValue  a text that is not a known value of the field; a newer version may know it

These errors are about data only, never about a connection.
"""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FieldError:
    """One fault of a manifest: `path` as kubectl writes it (`spec.minReplicas`), `message` a clause with the cure."""

    path: str
    message: str

    def __str__(self) -> str:
        """Return `path: message`."""
        return f"{self.path}: {self.message}"


class ContractError(Exception):
    """Data that breaks the contract."""


class InvalidSpec(ContractError):
    """A manifest with faults."""

    def __init__(self, errors: Sequence[FieldError]) -> None:
        super().__init__("; ".join(str(fault) for fault in errors))
        self.errors = tuple(errors)


class RecordError(ContractError):
    """A record that cannot be read: unknown version, not JSON, wrong types."""


class CodecError(ContractError):
    """A JSON value that does not fit the type of its field."""

    def __init__(self, path: str, message: str) -> None:
        super().__init__(f"{path}: {message}" if path else message)
        self.path = path
        self.message = message


class UnknownValue(CodecError):
    """A text that is not a known value of its field."""
