"""Reading a foreign object so that nothing is forgotten: fields that were not taken are noted by name in the end."""

from collections.abc import Mapping
from typing import Any

from elasticjob_cli.convert.result import Kind, Note
from elasticjob_cli.errors import InvalidManifest

NO_EQUIVALENT = "an ElasticJob has nothing like it"


class Fields:
    """One object of the source and what was not taken of it yet; `notes` is shared by all objects inside."""

    def __init__(self, value: Any, path: str, notes: list[Note]) -> None:
        if value is not None and not isinstance(value, Mapping):
            raise InvalidManifest(f"{path}: is {value!r}; it must be an object")
        self._left: dict[str, Any] = dict(value or {})
        self._inner: list[Fields] = []
        self.path = path
        self.notes = notes

    def __contains__(self, name: str) -> bool:
        """Whether it is there and was not taken."""
        return name in self._left

    def pop(self, name: str, default: Any = None) -> Any:
        """Its value, which is carried over by the caller."""
        return self._left.pop(name, default)

    def inner(self, name: str) -> "Fields":
        """The object in this field."""
        found = Fields(self._left.pop(name, None), f"{self.path}.{name}" if self.path else name, self.notes)
        self._inner.append(found)
        return found

    def names(self) -> tuple[str, ...]:
        """What is left."""
        return tuple(self._left)

    def add_note(self, name: str, kind: Kind, message: str) -> None:
        """A note about one field of this object."""
        self.notes.append(Note(f"{self.path}.{name}" if self.path else name, kind, message))

    def leave_out(self, name: str, why: str) -> Any:
        """Note that it is not carried over, if it is there; its value."""
        value = self._left.pop(name, None)
        if value is not None:
            self.add_note(name, Kind.LEFT_OUT, why)
        return value

    def finish(self) -> None:
        """Note everything that nobody took, here and inside."""
        for name in tuple(self._left):
            self.leave_out(name, NO_EQUIVALENT)
        for inner in self._inner:
            inner.finish()


def job_of(source: Mapping[str, Any], notes: list[Note]) -> Fields:
    """Another operator's job as a whole; which kind it is has been read, and its status stays behind."""
    job = Fields({name: value for name, value in source.items() if name not in {"apiVersion", "kind"}}, "", notes)
    job.leave_out("status", "it is the other operator's")
    return job
