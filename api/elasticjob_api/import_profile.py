"""The imports of a command as one node has recorded them, for the first workers of another node.

Its text is compressed JSON. Any writer with the job's certificate may have written it, so it is parsed as a stranger's.
Bytes that would take more than a few MiB of memory are neither unpacked nor parsed.
"""

import bisect
import hashlib
import json
import zlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from elasticjob_api.constants import IMPORT_PROFILE_BYTES

_MAX_TEXT = 1 << 22
"""Bytes of the text: more is no profile, and is not unpacked."""
_MAX_MODULES, _MAX_FOLDERS, _MAX_DENIED, _MAX_WORDS, _MAX_VARIABLES = 20_000, 1000, 1000, 10_000, 10_000
_MAX_COMMAS, _MAX_BRACKETS = 100_000, 1000
"""In the text: more is no profile, and is not parsed. Each value of JSON takes many times its text in memory."""
_MAX_NAME, _MAX_PATH = 300, 4096
_MAX_TIME_NS = 1 << 63
CONTEXT_KINDS = ("beside", "environ", "thread", "coroutine", "with", "call", "")
"""Of the contexts of an import, those that exclude more first; the last is that of another module."""
_VERSION = 1
_DIGEST = "sha256:"
_MAX_SECONDS = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportProfile:
    """A recording that a zygote has repeated without an objection."""

    command: str
    """The digest of the workers' command, whose arguments may be secret."""
    interpreter: tuple[str, int]
    """The program file that ran it, and its time of modification in nanoseconds."""
    modules: Mapping[str, str]
    folders: tuple[str, ...]
    variables: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """Environment variables that the script has changed: the module imported before that, and never the value."""
    given_variables: tuple[str, ...] = ()
    """Those of them that the workers' environment had already; such a variable may be the reason for a denial."""
    known_variables: tuple[str, ...] = ()
    """All environment variables that a worker has changed there, also after its imports."""
    contexts: Mapping[str, str] = field(default_factory=dict)
    """Modules whose import has begun in a context, such as a `with` block: KIND:MODULE; see `is_context`."""
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
        "argv": [profile.command],  # an older reader takes it for another command, and starts cold
        "interpreter": profile.interpreter,
        "modules": dict(profile.modules),
        "folders": profile.folders,
        "variables": {name: module for name, (module, _) in profile.variables.items()},
        "given_variables": profile.given_variables,
        "known_variables": list(filter(_is_printable, profile.known_variables)),
        "contexts": dict(profile.contexts),
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
        if not unpacked.eof or unpacked.unused_data or not _is_small(text):
            return None
        return _profile(json.loads(text))
    except (zlib.error, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def _is_small(text: bytes) -> bool:
    return text.count(b",") <= _MAX_COMMAS and text.count(b"[") + text.count(b"{") <= _MAX_BRACKETS


def _profile(value: Mapping[str, Any]) -> ImportProfile | None:
    if value["v"] != _VERSION:
        return None
    path, modified_ns = value["interpreter"]
    files = {_path(path): _time_ns(time) for path, time in _entries(value["files"])}
    return ImportProfile(
        command=_command(_texts(value["argv"], _MAX_WORDS, _MAX_TEXT)),
        interpreter=(_path(path), _time_ns(modified_ns)),
        modules=_with_files({name: _path(path) for name, path in _entries(value["modules"])}, files),
        folders=tuple(map(_path, _texts(value["folders"], _MAX_FOLDERS, _MAX_PATH))),
        variables={
            _printable(name): (_text(module, _MAX_NAME), "")
            for name, module in _entries(value.get("variables", {}))  # a release before did not have them
        },
        given_variables=_variables(value["given_variables"]),
        known_variables=_variables(value["known_variables"]),  # without them, the variables are those of one rank
        contexts={
            _text(name, _MAX_NAME): _context(text)
            for name, text in _entries(value["contexts"])  # without them, nothing shows that an import had none
        },
        files=files,
        denied=_texts(value["denied"], _MAX_DENIED, _MAX_NAME),
        seconds=_seconds(value["seconds"]),
    )


def _with_files(modules: Mapping[str, str], files: Collection[str]) -> dict[str, str]:
    """Return the modules that come from one of these files, and the packages around them.

    Without a file, nothing shows that a module is the one that the other node had. A package may have no file.
    """
    wanted = {name for name, path in modules.items() if path in files and is_module_name(name)}
    ordered = sorted(wanted)  # a text for each package around each module would take many times their memory

    def is_around_another(name: str) -> bool:
        package = name + "."
        place = bisect.bisect_left(ordered, package)
        return place < len(ordered) and ordered[place].startswith(package)

    return {name: path for name, path in modules.items() if name in wanted or (not path and is_around_another(name))}


def _entries(value: Mapping[str, Any]) -> list[tuple[str, Any]]:
    if len(value) > _MAX_MODULES:
        raise ValueError("too many entries")
    return list(value.items())


def _texts(value: list[Any], most: int, longest: int) -> tuple[str, ...]:
    if not isinstance(value, list) or len(value) > most:
        raise ValueError("no short list")
    return tuple(_text(each, longest) for each in value)


def _text(value: object, longest: int) -> str:
    if not isinstance(value, str) or len(value) > longest or "\0" in value:
        raise ValueError("no short text")
    return value


def _printable(value: object) -> str:
    """Return the text if it can be shown in a line of a log."""
    text = _text(value, _MAX_NAME)
    if not _is_printable(text):
        raise ValueError("no name")
    return text


def _is_printable(text: str) -> bool:
    return text.isprintable() and len(text) <= _MAX_NAME


def _variables(value: list[Any]) -> tuple[str, ...]:
    return tuple(map(_printable, _texts(value, _MAX_VARIABLES, _MAX_NAME)))


def _context(value: object) -> str:
    text = _text(value, _MAX_PATH)
    if not is_context(text):
        raise ValueError("no context")
    return text


def _path(value: object) -> str:
    """Return the text if the kernel could take it as a path; some modules have another text, or none."""
    text = _text(value, _MAX_PATH)
    if len(text.encode(errors="surrogateescape")) >= _MAX_PATH:
        raise ValueError("no path")
    return text


def _time_ns(value: object) -> int:
    if not isinstance(value, int) or not -_MAX_TIME_NS <= value < _MAX_TIME_NS:
        raise ValueError("no time")
    return value


def _seconds(value: object) -> float:
    if not isinstance(value, int | float) or not 0 <= value <= _MAX_SECONDS:  # nor NaN
        raise ValueError("no duration")
    return float(value)


def command_digest(argv: Sequence[str]) -> str:
    """Return a text that is the same for the same command, and shows none of its words."""
    return _DIGEST + hashlib.sha256(json.dumps(list(argv)).encode("ascii")).hexdigest()


def _command(words: Sequence[str]) -> str:
    """Return the digest that a profile has; an older writer has the words of the command."""
    is_digest = len(words) == 1 and words[0].startswith(_DIGEST)
    return words[0] if is_digest else command_digest(words)


def is_module_name(name: str) -> bool:
    """Whether this is the full name of a module, of a usual length."""
    return len(name) <= _MAX_NAME and all(part.isidentifier() for part in name.split("."))


def is_context(text: str) -> bool:
    """Whether this is KIND:MODULE, as the recorder writes the context of an import; each part may be empty."""
    kind, colon, module = text.partition(":")
    return bool(colon) and kind in CONTEXT_KINDS and (not module or is_module_name(module))
