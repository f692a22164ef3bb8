"""The distributions whose metadata a folder has: imports may list those of all folders in sys.path.

The folder of the script is not in sys.path during imports ahead. So they do not list its distributions.
"""

import os
import sys
import zipimport

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_LISTING = frozenset({"pkg_resources", "importlib.metadata", "importlib_metadata"})
"""The modules that list distributions."""
_SUFFIXES = (".dist-info", ".egg-info", ".egg")
_LINK = ".egg-link"


def can_be_listed() -> bool:
    """Whether a module is imported that lists distributions."""
    return not _LISTING.isdisjoint(sys.modules)


def distributions_in(folders: "Iterable[str]") -> "frozenset[str]":
    """Return the normalized names of the distributions in these folders."""
    return frozenset(normalized for folder in folders for normalized, _ in _distributions(folder))


def first_unknown(folder: str, known: "frozenset[str]") -> str:
    """Return the name of a distribution in this folder or archive that is none of these, or an empty text."""
    return next((name for normalized, name in _distributions(folder) if normalized not in known), "")


def names_in(path: str) -> "list[str]":
    """Return the names in this folder, or at the top of this archive; nothing if it is neither, as most scripts."""
    try:
        return os.listdir(path or os.curdir)
    except NotADirectoryError:
        return _names_in_archive(path)
    except (OSError, ValueError):
        return []


def _names_in_archive(path: str) -> "list[str]":
    try:
        files = zipimport._read_directory(path)  # type: ignore[attr-defined]
    except zipimport.ZipImportError:
        return []
    return list({name.partition(os.sep)[0] for name in files})


def _distributions(folder: str) -> "Iterator[tuple[str, str]]":
    """Yield the normalized name of each distribution in this folder, and its name."""
    for file in names_in(folder):
        stem, suffix = os.path.splitext(file)
        # The other names have a version after the first hyphen, and none before it.
        name = stem.partition("-")[0] if suffix.lower() in _SUFFIXES else stem
        if name and (suffix.lower() in _SUFFIXES or suffix == _LINK):
            yield _normalized(name), name


def _normalized(name: str) -> str:
    """Return the name in lower case, with one hyphen for each run of hyphens, underscores and dots."""
    parts = name.lower().replace("_", "-").replace(".", "-").split("-")
    return "-".join(filter(None, parts))
