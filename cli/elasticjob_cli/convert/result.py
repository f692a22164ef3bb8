"""The result of a conversion: the manifest, and a note for everything that is not in it or must be looked at."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from elasticjob_api import constants


class Kind(StrEnum):
    """How a note is meant."""

    LEFT_OUT = "left out"  # it has no equal here
    CHANGED = "changed"  # it is there in another form
    FILL_IN = "fill in"  # the result cannot run before somebody writes it


@dataclass(frozen=True, slots=True)
class Note:
    """One field of the source, by its path, and what became of it."""

    path: str
    kind: Kind
    message: str

    def __str__(self) -> str:
        """One line."""
        return f"{self.kind}: {self.path}: {self.message}"


@dataclass(frozen=True, slots=True)
class Converted:
    """A manifest and its notes."""

    manifest: Mapping[str, Any]
    notes: Sequence[Note]

    @property
    def complete(self) -> bool:
        """Nothing has to be filled in."""
        return all(note.kind is not Kind.FILL_IN for note in self.notes)


def manifest(metadata: Mapping[str, Any], spec: Mapping[str, Any], template: Mapping[str, Any]) -> dict[str, Any]:
    """An ElasticJob, in the order in which people write one; fields that are None are not there."""
    fields = {name: spec[name] for name in _ORDER if spec.get(name) is not None}
    rest = {name: value for name, value in spec.items() if name not in fields and value is not None}
    return {
        "apiVersion": constants.API_VERSION,
        "kind": constants.KIND,
        "metadata": dict(metadata),
        "spec": {**fields, **rest, "template": dict(template)},
    }


_ORDER = ("replicas", "minReplicas", "maxReplicas", "replicaStep", "nprocPerNode", "maxRestarts", "backoffLimit")
