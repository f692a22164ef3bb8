"""The result of a conversion: the manifest, and a note for each field that is missing from it or needs attention."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from elasticjob_api import constants


class NoteKind(StrEnum):
    """The kind of a note."""

    LEFT_OUT = "left out"  # it has no equivalent here
    CHANGED = "changed"  # it is in the result, in another form
    FILL_IN = "fill in"  # the user must add it before the job can run


@dataclass(frozen=True, slots=True)
class Note:
    """A note about one field of the source, named by its path."""

    path: str
    kind: NoteKind
    message: str

    def __str__(self) -> str:
        """Return the note as one line."""
        return f"{self.kind}: {self.path}: {self.message}"


@dataclass(frozen=True, slots=True)
class Converted:
    """A manifest and its notes."""

    manifest: Mapping[str, Any]
    notes: Sequence[Note]

    @property
    def complete(self) -> bool:
        """Whether nothing has to be filled in."""
        return all(note.kind is not NoteKind.FILL_IN for note in self.notes)


def manifest(metadata: Mapping[str, Any], spec: Mapping[str, Any], template: Mapping[str, Any]) -> dict[str, Any]:
    """Return an ElasticJob with its fields in the usual order, without those that are None."""
    fields = {name: spec[name] for name in _ORDER if spec.get(name) is not None}
    rest = {name: value for name, value in spec.items() if name not in fields and value is not None}
    return {
        "apiVersion": constants.API_VERSION,
        "kind": constants.KIND,
        "metadata": dict(metadata),
        "spec": {**fields, **rest, "template": dict(template)},
    }


_ORDER = ("replicas", "minReplicas", "maxReplicas", "replicaStep", "nprocPerNode", "maxRestarts", "backoffLimit")
