"""The symbol index: which definition each identifier of the repository means, as mypy resolves it.

One run of mypy over all files; the tables are not needed for it. Kept in `.venv/rename-index` until a file changes.
"""

import hashlib
import pickle
from dataclasses import dataclass, field

from hack.rename.text import ROOT, python_files

CACHE = ROOT / ".venv" / "rename-index"
_VERSION = b"5"
"""To be raised when this module finds something else in the same files."""

Target = tuple[str, str, str]
"""("g", full name, "") a module's own name; ("m", class, attribute); ("v", number, name) a variable of a function;
("f", function, name) a keyword that a function forwards;
("?", why, name) an attribute or keyword that could not be resolved."""


@dataclass
class Class:
    """A class of the project."""

    bases: tuple[str, ...]
    names: frozenset[str]
    protocol: bool
    foreign: frozenset[str]
    """Names that a base class outside of the project has too."""
    implements: set[str] = field(default_factory=set)


@dataclass
class Variable:
    """A parameter or local variable."""

    function: str
    name: str
    type: str
    file: str


@dataclass
class Index:
    """All that the tables are applied to."""

    classes: dict[str, Class] = field(default_factory=dict)
    variables: list[Variable] = field(default_factory=list)
    globals: dict[str, set[str]] = field(default_factory=dict)
    """Module → its own names."""
    places: dict[str, list[tuple[int, int, str, tuple[Target, ...]]]] = field(default_factory=dict)
    """File → (start, end, name, what it may mean)."""
    files: dict[str, str] = field(default_factory=dict)
    """Module → file."""


def load() -> Index:
    """Return the index of this tree, from the cache if no Python file has changed."""
    key = hashlib.sha256(_VERSION)
    for name in python_files():
        key.update(name.encode() + b"\0" + (ROOT / name).read_bytes())
    if CACHE.exists():
        kept, index = pickle.loads(CACHE.read_bytes())  # noqa: S301 - our own file
        if kept == key.hexdigest():
            return index  # type: ignore[no-any-return]
    from hack.rename.resolve import build  # noqa: PLC0415 - it makes what is defined here

    index = build()
    CACHE.write_bytes(pickle.dumps((key.hexdigest(), index)))
    return index
