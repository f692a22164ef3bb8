"""The interface of what a zygote is to import."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Protocol


class ImportSource(Protocol):
    """The modules that a zygote is to import: a recording of this node, or a profile of another one."""

    @property
    def modules(self) -> Mapping[str, str]:
        """Return the modules in the order of their imports, each with the file from which it came."""

    @property
    def folders(self) -> Collection[str]:
        """Return entries that sys.path has got since the interpreter was started."""

    @property
    def variables(self) -> Mapping[str, tuple[str, str]]:
        """Return environment variables that were changed: the module imported before that, and the value if known."""

    @property
    def contexts(self) -> Mapping[str, str]:
        """Return the modules whose import has begun in a context, such as a `with` block, each with that context."""

    @property
    def known_variables(self) -> Collection[str]:
        """Return the names of all variables that a recorded worker has changed at any time."""


@dataclass(frozen=True, slots=True)
class ImportSnapshot:
    """The imports that a source has had at one time."""

    modules: Mapping[str, str]
    folders: Collection[str]
    variables: Mapping[str, tuple[str, str]]
    contexts: Mapping[str, str]
    known_variables: Collection[str]


def copy_of(source: ImportSource) -> ImportSnapshot:
    """Return what this source has now: that of a recording grows."""
    return ImportSnapshot(
        dict(source.modules),
        list(source.folders),
        dict(source.variables),
        dict(source.contexts),
        set(source.known_variables),
    )
