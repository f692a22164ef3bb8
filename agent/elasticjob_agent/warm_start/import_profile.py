"""The imports of a command as one node has recorded them, for the first workers of another node.

Its text is compressed JSON. Any writer with the job's certificate may have written it, so it is parsed as a stranger's.
"""

import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from elasticjob_api.constants import IMPORT_PROFILE_BYTES

_MAX_TEXT = 1 << 23
"""Bytes of the text: more is no profile, and is not unpacked."""
_MAX_MODULES, _MAX_FOLDERS = 20_000, 1000
_MAX_NAME = 300
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
    return ImportProfile(
        argv=tuple(map(str, value["argv"])),
        interpreter=(str(path), int(modified_ns)),
        modules={name: str(path) for name, path in value["modules"].items() if is_module_name(name)},
        folders=tuple(map(str, value["folders"][:_MAX_FOLDERS])),
        files={str(path): int(modified_ns) for path, modified_ns in value["files"].items()},
        denied=tuple(map(str, value["denied"])),
        seconds=seconds,
    )


def is_module_name(name: str) -> bool:
    """Whether this is the full name of a module, of a usual length."""
    return len(name) <= _MAX_NAME and all(part.isidentifier() for part in name.split("."))
