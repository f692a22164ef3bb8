"""A reader of a foreign object: each field that the conversion does not use is noted by name in the end."""

from collections.abc import Mapping
from typing import Any

from elasticjob_cli.convert.result import Note, NoteKind
from elasticjob_cli.errors import InvalidManifest

NO_EQUIVALENT = "an ElasticJob has no such field"


class Fields:
    """The fields of an object that the conversion has not used yet; inner objects share `notes`."""

    def __init__(self, value: Any, path: str, notes: list[Note]) -> None:
        if value is not None and not isinstance(value, Mapping):
            raise InvalidManifest(f"{path}: is {value!r}; it must be an object")
        self._left: dict[str, Any] = dict(value or {})
        self._inner: list[Fields] = []
        self.path = path
        self.notes = notes

    def __contains__(self, name: str) -> bool:
        """Return whether the field exists and was not used yet."""
        return name in self._left

    def pop(self, name: str, default: Any = None) -> Any:
        """Return the value of a field, which the caller carries over."""
        return self._left.pop(name, default)

    def inner(self, name: str) -> "Fields":
        """Return the object in a field."""
        found = Fields(self._left.pop(name, None), f"{self.path}.{name}" if self.path else name, self.notes)
        self._inner.append(found)
        return found

    def names(self) -> tuple[str, ...]:
        """Return the names of the fields that are left."""
        return tuple(self._left)

    def add_note(self, name: str, kind: NoteKind, message: str) -> None:
        """Add a note about a field of this object."""
        self.notes.append(Note(f"{self.path}.{name}" if self.path else name, kind, message))

    def leave_out(self, name: str, why: str) -> Any:
        """Return the value of a field, with a note that it is not carried over if it exists."""
        value = self._left.pop(name, None)
        if value is not None:
            self.add_note(name, NoteKind.LEFT_OUT, why)
        return value

    def finish(self) -> None:
        """Add a note for each unused field, here and in inner objects."""
        for name in tuple(self._left):
            self.leave_out(name, NO_EQUIVALENT)
        for inner in self._inner:
            inner.finish()


def job_of(source: Mapping[str, Any], notes: list[Note]) -> Fields:
    """Return the fields of a foreign job, without its kind and status."""
    job = Fields({name: value for name, value in source.items() if name not in {"apiVersion", "kind"}}, "", notes)
    job.leave_out("status", "it belongs to the other operator")
    return job
