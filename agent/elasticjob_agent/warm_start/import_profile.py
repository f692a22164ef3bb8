"""The imports of a command as one node has recorded them, for the first workers of another node.

Its text is compressed JSON. Any writer with the job's certificate may have written it, so it is parsed as a stranger's.
"""

import json
import os
import zlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from elasticjob_api.constants import IMPORT_PROFILE_BYTES

_MAX_TEXT = 1 << 23
"""Bytes of the text: more is no profile, and is not unpacked."""
_MAX_MODULES, _MAX_FOLDERS = 20_000, 1000
_MAX_NAME = 300
_MAX_PATH = 4096
"""Bytes of a path that the kernel takes."""
_VERSION = 1
MAX_SECONDS = 600.0


class ImportSource(Protocol):
    """The modules that a zygote is to import: a recording of this node, or a profile of another one."""

    @property
    def modules(self) -> Mapping[str, str]:
        """Return the modules in the order of their imports, each with the file from which it came."""

    @property
    def folders(self) -> Sequence[str]:
        """Return entries that sys.path has got since the interpreter was started."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportProfile:
    """A recording that a zygote has repeated without an objection."""

    argv: tuple[str, ...]
    """The command of the workers."""
    interpreter: tuple[str, int]
    """The program file that ran it, and its time of modification in nanoseconds."""
    modules: Mapping[str, str]
    folders: tuple[str, ...]
    files: Mapping[str, int]
    """The files of the modules, each with its time of modification in nanoseconds."""
    denied: tuple[str, ...]
    """Packages that each worker must import itself."""
    seconds: float
    """The duration of the imports on the node that has recorded them."""


def encode_profile(profile: ImportProfile) -> bytes | None:
    """Return the bytes of this profile; None if they are too many."""
    value = {
        "v": _VERSION,
        "argv": profile.argv,
        "interpreter": profile.interpreter,
        "modules": dict(profile.modules),
        "folders": profile.folders,
        "files": dict(profile.files),
        "denied": profile.denied,
        "seconds": profile.seconds,
    }
    data = zlib.compress(json.dumps(value, separators=(",", ":")).encode("ascii"), 9)
    return data if len(data) <= IMPORT_PROFILE_BYTES else None


def decode_profile(data: bytes) -> ImportProfile | None:
    """Return the profile in these bytes; None if there is none that this version can read."""
    if len(data) > IMPORT_PROFILE_BYTES:
        return None
    try:
        unpacked = zlib.decompressobj()
        text = unpacked.decompress(data, _MAX_TEXT)
        if not unpacked.eof:
            return None
        return _profile(json.loads(text))
    except (zlib.error, ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError):
        return None


def _profile(value: Mapping[str, Any]) -> ImportProfile | None:
    if value["v"] != _VERSION or len(value["modules"]) > _MAX_MODULES:
        return None
    path, modified_ns = value["interpreter"]
    seconds = float(value["seconds"])
    if not 0 <= seconds <= MAX_SECONDS:  # also what is no number
        return None
    files = {str(path): int(modified_ns) for path, modified_ns in value["files"].items()}
    profile = ImportProfile(
        argv=tuple(map(str, value["argv"])),
        interpreter=(str(path), int(modified_ns)),
        modules=_with_files({name: str(path) for name, path in value["modules"].items()}, files),
        folders=tuple(map(str, value["folders"][:_MAX_FOLDERS])),
        files=files,
        denied=tuple(map(str, value["denied"])),
        seconds=seconds,
    )
    return profile if all(map(_is_path, (*profile.files, *profile.folders, *profile.modules.values()))) else None


def _with_files(modules: Mapping[str, str], files: Collection[str]) -> dict[str, str]:
    """Return the modules that come from one of these files, and the packages around them.

    Without a file, nothing shows that a module is the one that the other node had. A package may have no file.
    """
    wanted = {name for name, path in modules.items() if path in files and is_module_name(name)}
    for name in list(wanted):
        parts = name.split(".")
        wanted.update(".".join(parts[:count]) for count in range(1, len(parts)))
    return {name: path for name, path in modules.items() if name in wanted and (path in files or not path)}


def _is_path(text: str) -> bool:
    """Whether the kernel could take this as a path; some modules have another text, or none."""
    try:
        return "\0" not in text and len(os.fsencode(text)) < _MAX_PATH
    except UnicodeEncodeError:
        return False


def is_module_name(name: str) -> bool:
    """Whether this is the full name of a module, of a usual length."""
    return len(name) <= _MAX_NAME and all(part.isidentifier() for part in name.split("."))
