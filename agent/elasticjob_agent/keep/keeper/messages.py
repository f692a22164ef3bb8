"""The messages between an agent and its keeper: one JSON object a line. No I/O.

The agent sends requests with a number. The keeper answers each with the same number. It also sends what it was not
asked for: its holdings when they have changed, and sentences for users. A keeper acts on requests in their order.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from elasticjob_agent.keep.keeper.errors import ControlError
from elasticjob_api.codec import read, with_codec, write
from elasticjob_api.errors import CodecError, RecordError
from elasticjob_api.kept_steps import History, Holdings, KeptStep, Lineage, format_parts, parse_parts

T = TypeVar("T")

LINE_LIMIT = 16 << 20
"""The most bytes of a line. Both ends are programs of ours, so this is against a fault, not for use."""


@dataclass(frozen=True, slots=True)
class OpenRequest:
    """Open the volume of a job. This is the first request."""

    root: str
    job: str
    run: str = ""
    """Empty if the agent knows no run yet."""
    size_limit: int | None = None
    """Bytes, for a directory in a file system that has no limit for it."""
    workers_mode: int = 0o700
    """The mode of the directory in which scripts publish."""


@dataclass(frozen=True, slots=True)
class BeginRequest:
    """Drop all steps that are not alive; make the directory in which the workers of this round publish."""

    run: str
    lineage: Lineage
    history: History = field(
        default_factory=History, metadata=with_codec(str, lambda value, _: History.parse(str(value)))
    )
    restored: KeptStep | None = None
    """The step that the round restores from memory."""


@dataclass(frozen=True, slots=True)
class StartedRequest:
    """Know that the workers of the round have started: from now on steps may be dropped."""


@dataclass(frozen=True, slots=True)
class SealRequest:
    """Take all that the workers have published, after they were reaped. Until the next round nothing is dropped."""


@dataclass(frozen=True, slots=True)
class RestoreRequest:
    """Link the files of all parts of a step, for the workers."""

    step: KeptStep


@dataclass(frozen=True, slots=True)
class DropRequest:
    """Drop these steps."""

    steps: tuple[KeptStep, ...]


@dataclass(frozen=True, slots=True)
class StatusRequest:
    """Read counts for reports."""


@dataclass(frozen=True, slots=True)
class EraseRequest:
    """Delete the whole volume: the job has ended."""


Request = (
    OpenRequest
    | BeginRequest
    | StartedRequest
    | SealRequest
    | RestoreRequest
    | DropRequest
    | StatusRequest
    | EraseRequest
)
_KINDS: dict[str, type[Request]] = {
    "open": OpenRequest,
    "begin": BeginRequest,
    "started": StartedRequest,
    "seal": SealRequest,
    "restore": RestoreRequest,
    "drop": DropRequest,
    "status": StatusRequest,
    "erase": EraseRequest,
}
_NAMES = {kind: name for name, kind in _KINDS.items()}


@dataclass(frozen=True, slots=True)
class KeeperStatus:
    """Counts of one keeper, since its start unless they are a size."""

    held_bytes: int = 0
    free_bytes: int = 0
    taken: int = 0
    refused: int = 0
    skipped: int = 0
    """Own parts that were dropped because a newer one was taken before they were copied."""
    is_polling: bool = False
    """Whether the system had no inotify instance left, so names are noticed once a second."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The end of one request: an error, or what was asked for."""

    request: int
    error: str = ""
    directory: str = ""
    """Where the workers publish, or find the restored step."""
    run: str = ""
    holdings: Mapping[str, str] | None = None
    status: KeeperStatus | None = None


@dataclass(frozen=True, slots=True)
class HoldingsUpdate:
    """The present holdings of the node."""

    holdings: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Note:
    """A sentence for users: why a part was refused or withdrawn."""

    text: str


Message = Answer | HoldingsUpdate | Note
_MESSAGES: dict[str, type[Message]] = {"answer": Answer, "holdings": HoldingsUpdate, "notice": Note}
_MESSAGE_NAMES = {kind: name for name, kind in _MESSAGES.items()}


def encode_request(number: int, request: Request) -> bytes:
    """Return the line of a request."""
    return _line({"request": number, "do": _NAMES[type(request)], **write(request)})


def decode_request(line: bytes) -> tuple[int, Request]:
    """Return number and request of a line; raise ControlError."""
    value = _parse(line)
    number, kind = value.pop("request", None), _KINDS.get(str(value.pop("do", "")))
    if type(number) is not int or kind is None:
        raise ControlError(f"{line!r:.200} is no request")
    return number, _read(kind, value, line)


def encode_message(message: Message) -> bytes:
    """Return the line of a message of the keeper."""
    return _line({"kind": _MESSAGE_NAMES[type(message)], **write(message)})


def decode_message(line: bytes) -> Message:
    """Return the message of a line; raise ControlError."""
    value = _parse(line)
    kind = _MESSAGES.get(str(value.pop("kind", "")))
    if kind is None:
        raise ControlError(f"{line!r:.200} is no message of a keeper")
    return _read(kind, value, line)


def encode_holdings(holdings: Holdings) -> dict[str, str]:
    """Return holdings as texts."""
    return {str(step): format_parts(indices) for step, indices in holdings.items()}


def decode_holdings(texts: Mapping[str, str]) -> Holdings:
    """Return the holdings of these texts; raise ControlError."""
    try:
        return {step: parse_parts(texts[str(step)], step.parts) for step in map(KeptStep.parse, texts)}
    except (RecordError, KeyError) as error:
        raise ControlError(f"these are no holdings: {error}") from error


class LineParser:
    """Bytes of a stream, until they are whole lines."""

    def __init__(self) -> None:
        self._partial = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        """Return the lines that these bytes complete; raise ControlError if one is too long."""
        *lines, rest = data.split(b"\n")
        if lines:
            lines[0] = bytes(self._partial) + lines[0]
            self._partial.clear()
        self._partial += rest
        if len(self._partial) > LINE_LIMIT:
            raise ControlError(f"a line has more than {LINE_LIMIT} bytes")
        return lines


def _line(value: Mapping[str, object]) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode() + b"\n"


def _parse(line: bytes) -> dict[str, object]:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ControlError(f"{line!r:.200} is no JSON") from error
    if not isinstance(value, dict):
        raise ControlError(f"{line!r:.200} is no JSON object")
    return value


def _read(kind: type[T], value: dict[str, object], line: bytes) -> T:
    try:
        return read(kind, value)
    except (CodecError, RecordError) as error:
        raise ControlError(f"{line!r:.200} is not readable: {error}") from error
