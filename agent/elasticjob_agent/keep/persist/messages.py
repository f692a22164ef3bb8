"""The messages between a keeper and the process that writes to the shared directory: one JSON object a line. No I/O."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from elasticjob_agent.keep.persist.errors import PersistError
from elasticjob_agent.keep.persist.layout import SourceFile
from elasticjob_api.codec import read, with_codec, write
from elasticjob_api.errors import CodecError, RecordError
from elasticjob_api.kept_steps import PersistedStep

T = TypeVar("T")

LINE_LIMIT = 64 << 20
"""The most bytes of a line. Both ends are programs of ours, so this is against a fault, not for use."""

_STEP = with_codec(str, lambda value, _: PersistedStep.parse(str(value)))


@dataclass(frozen=True, slots=True)
class ListCommand:
    """Complete what can be completed, and list what is whole. The first one also makes the directory of the job."""


@dataclass(frozen=True, slots=True)
class PartFiles:
    """One part in memory."""

    index: int
    path: str
    """The directory of its files."""
    files: tuple[SourceFile, ...]


@dataclass(frozen=True, slots=True)
class WriteCommand:
    """Write these parts of a step, then complete it if they were the last ones."""

    step: PersistedStep = field(metadata=_STEP)
    parts: tuple[PartFiles, ...] = ()
    rate: int = 0
    """Bytes a second; 0 is unlimited."""


@dataclass(frozen=True, slots=True)
class CancelCommand:
    """End the write that is in progress."""


@dataclass(frozen=True, slots=True)
class CheckCommand:
    """Check that a step is here, for workers that read it."""

    step: PersistedStep = field(metadata=_STEP)


@dataclass(frozen=True, slots=True)
class RemoveCommand:
    """Remove these whole steps, if all that were to stay are still there."""

    steps: tuple[str, ...]
    kept: tuple[str, ...] = ()
    """The other steps of the list by which these were chosen."""


Command = ListCommand | WriteCommand | CancelCommand | CheckCommand | RemoveCommand
_KINDS: dict[str, type[Command]] = {
    "list": ListCommand,
    "write": WriteCommand,
    "cancel": CancelCommand,
    "check": CheckCommand,
    "remove": RemoveCommand,
}
_NAMES = {kind: name for name, kind in _KINDS.items()}


@dataclass(frozen=True, slots=True)
class WriterAnswer:
    """Progress of any command, or the end of one."""

    command: int
    is_end: bool = True
    """False: there is progress, of whatever command."""
    error: str = ""
    is_of_step: bool = False
    """Whether the error is that of the checked step alone: the directory can be read."""
    directory: str = ""
    """Where the workers find the checked step."""
    id: str = ""
    """That of the directory: all nodes read the same one."""
    steps: Mapping[str, int] | None = None
    """Whole steps, each with the time (ns) of its directory."""
    seconds: float = 0.0
    """How long the command took."""


def encode_command(number: int, command: Command) -> bytes:
    """Return the line of a command."""
    return _line({"command": number, "do": _NAMES[type(command)], **write(command)})


def decode_command(line: bytes) -> tuple[int, Command]:
    """Return number and command of a line; raise PersistError."""
    value = _parse(line)
    number, kind = value.pop("command", None), _KINDS.get(str(value.pop("do", "")))
    if type(number) is not int or kind is None:
        raise PersistError(f"{line!r:.200} is no command")
    return number, _read(kind, value, line)


def encode_answer(reply: WriterAnswer) -> bytes:
    """Return the line of a reply."""
    return _line(write(reply))


def decode_answer(line: bytes) -> WriterAnswer:
    """Return the reply of a line; raise PersistError."""
    return _read(WriterAnswer, _parse(line), line)


def _line(value: Mapping[str, object]) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode() + b"\n"


def _parse(line: bytes) -> dict[str, Any]:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise PersistError(f"{line!r:.200} is no JSON") from error
    if not isinstance(value, dict):
        raise PersistError(f"{line!r:.200} is no JSON object")
    return value


def _read(kind: type[T], value: dict[str, Any], line: bytes) -> T:
    try:
        return read(kind, value)
    except (CodecError, RecordError) as error:
        raise PersistError(f"{line!r:.200} is not readable: {error}") from error
