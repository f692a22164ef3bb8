"""The messages between an agent and its keeper: one JSON object a line. No I/O.

The agent sends requests with a number. The keeper answers each with the same number. It sends its holdings and its
progress when they have changed, the ends of a fetch and of lingering, and sentences for users. A keeper acts on
requests in their order.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from elasticjob_agent.keep.keeper.errors import ControlError
from elasticjob_agent.keep.keeper.persist_messages import DrainRequest, DrainResult, ListRequest, PersistUpdate
from elasticjob_agent.keep.keeper.sentences import SENTENCE
from elasticjob_agent.keep.rules.replication import RoundPlace
from elasticjob_api.codec import read, with_codec, write
from elasticjob_api.errors import CodecError, RecordError
from elasticjob_api.kept_steps import History, Holdings, KeptStep, Lineage, format_parts, parse_parts

T = TypeVar("T")

_HISTORY = with_codec(str, lambda value, _: History.parse(str(value)))
_MAYBE_HISTORY = with_codec(
    lambda history: None if history is None else str(history),
    lambda value, _: None if value is None else History.parse(str(value)),
)


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
    host: str = ""
    """The address on which peers reach this keeper; empty if there is none. Then nothing is copied or served."""
    trouble: str = ""
    """Why the agent has no listening socket for this keeper, though it has an address."""
    certificate: str = ""
    """Path of a PEM file, as the next two; empty without TLS. They are read again when they are replaced."""
    key: str = ""
    authority: str = ""
    persist_to: str = ""
    """The shared directory into which committed steps are written; empty if none are."""
    persist_every_s: float = 600.0
    """Seconds between two of them."""
    persist_keep: int = 2
    """How many whole steps stay there."""
    persisted_step: int | None = None
    """A directory without a whole step of this number or a higher one is not the right one; None: any directory is."""
    persist_stall_s: float = 60.0
    """Seconds without progress after which a write has failed."""


@dataclass(frozen=True, slots=True)
class JoinRequest:
    """Be this member of this run from now on: delete the steps of another run, and drop what is not alive.

    It begins and ends no round. Sessions of an earlier identity end. The answer has the holdings.
    """

    run: str
    member: str
    """The token of the member."""
    secret: str = field(default="", repr=False)
    """The job's link secret as hex digits; empty if it is not known yet. Then no peer is dialed or served."""
    history: History | None = field(default=None, metadata=_MAYBE_HISTORY)
    """The history of the state; None if there is no state, and nothing is dropped."""
    active: Lineage | None = None
    """The lineage of the state, if it is active."""


@dataclass(frozen=True, slots=True)
class BeginRequest:
    """Drop all steps that are not alive; make the directory in which the workers of this round publish."""

    run: str
    lineage: Lineage
    history: History = field(default_factory=History, metadata=_HISTORY)
    restored: KeptStep | None = None
    """The step that the round restores from memory."""
    place: RoundPlace | None = None
    """The place of this node; without it nothing is copied."""
    shift: int = 0
    copies: int = 0
    bandwidth: int = 0
    """The bytes a second of all copies to peers while workers run; 0 is unlimited."""
    older: History = field(default_factory=History, metadata=_HISTORY)
    """Steps behind the history that count in the shared directory only."""
    in_use: str = ""
    """The restored step as a persisted one; empty if there is none. A node may read it in the shared directory."""


@dataclass(frozen=True, slots=True)
class PeerRecord:
    """One member of the round, or a node that leaves."""

    member: str
    """Its token."""
    host: str = ""
    """The address of its keeper; empty if it is not known yet."""
    port: int = 0
    machine: str = ""
    """The name of its host: replicas are on other hosts than their origin. Empty if it is not known yet."""


@dataclass(frozen=True, slots=True)
class PeersRequest:
    """Know the members of the round; it replaces the last request, and is ignored for another round than the begun one.

    A member needs the addresses and hosts of those it may copy to. The leader's keeper needs those of all.
    """

    lineage: Lineage
    members: tuple[PeerRecord, ...]
    """In rank order."""
    leads: bool = False
    """Whether this node's agent leads: then this keeper opens the commit channel."""
    leaving: tuple[PeerRecord, ...] = ()
    """Nodes that leave and hold parts. They get the answers of the commit channel, too."""


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
class FetchRequest:
    """Fetch the parts of a step that are not here, and link all of them for the workers.

    It is answered at once; a FetchResult comes at its end. It replaces an earlier one. Each request that joins, begins
    or seals ends it without a result; what has arrived stays for the next one.
    """

    step: KeptStep
    sources: Mapping[str, tuple[str, ...]]
    """Indices of parts, such as `0-3,5` → addresses of keepers that hold them, `host:port`, the best one first."""
    within_s: float = 120.0
    number: int = 0
    """Chosen by the agent; the result has it, too."""
    run: str = ""
    """If it is set, the step is in the shared directory, and this run wrote it. Then it is only checked."""


@dataclass(frozen=True, slots=True)
class LingerRequest:
    """Serve what is here until no other node needs it; a LingerResult comes then, or at the deadline.

    The agent leaves and its workers are reaped. It repeats the request when the state changes.
    """

    history: History = field(default_factory=History, metadata=_HISTORY)
    active: Lineage | None = None
    """The lineage of the state, if it is active."""
    within_s: float = 30.0


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
    | JoinRequest
    | BeginRequest
    | PeersRequest
    | StartedRequest
    | SealRequest
    | RestoreRequest
    | FetchRequest
    | LingerRequest
    | ListRequest
    | DrainRequest
    | DropRequest
    | StatusRequest
    | EraseRequest
)
_KINDS: dict[str, type[Request]] = {
    "open": OpenRequest,
    "join": JoinRequest,
    "begin": BeginRequest,
    "peers": PeersRequest,
    "started": StartedRequest,
    "seal": SealRequest,
    "restore": RestoreRequest,
    "fetch": FetchRequest,
    "linger": LingerRequest,
    "list": ListRequest,
    "drain": DrainRequest,
    "drop": DropRequest,
    "status": StatusRequest,
    "erase": EraseRequest,
}
_NAMES = {kind: name for name, kind in _KINDS.items()}


@dataclass(frozen=True, slots=True)
class KeeperStatus:
    """Counts of one keeper, since its start unless they are a size."""

    held_bytes: int = 0
    taken: int = 0
    refused: int = 0
    skipped: int = 0
    """Own parts that were dropped because a newer one was taken before they were copied."""
    is_polling: bool = False
    """Whether the system had no inotify instance left, so names are noticed once a second."""
    copied: int = 0
    """Parts that peers have got from here, or had already."""
    received: int = 0
    """Parts that peers have put here."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The end of one request: an error, or what was asked for."""

    request: int
    error: str = field(default="", metadata=SENTENCE)
    directory: str = ""
    """Where the workers publish, or find the restored step."""
    run: str = ""
    holdings: Mapping[str, str] | None = None
    status: KeeperStatus | None = None
    port: int = 0
    """Where peers reach this keeper; 0 if it does not listen."""


@dataclass(frozen=True, slots=True)
class HoldingsUpdate:
    """The present holdings of the node."""

    holdings: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ProgressUpdate:
    """How far copying and committing are; sent when one of these has changed."""

    committed: KeptStep | None = None
    """The newest step that is known to be committed, also one of an earlier round."""
    copies: int | None = None
    """The fewest other nodes that hold a part of this node's own of that step; None if it has no own part."""
    held_bytes: int = 0
    skipped: int = 0
    """Own parts that were dropped, or not taken, because they were not copied before newer ones."""
    degraded: str = field(default="", metadata=SENTENCE)
    """A sentence without its full stop: why parts have fewer copies than wanted; empty if they have them."""


@dataclass(frozen=True, slots=True)
class FetchResult:
    """The end of a fetch."""

    number: int
    """That of the request."""
    directory: str = ""
    """Where the workers find the step, if all of it is here."""
    error: str = field(default="", metadata=SENTENCE)
    is_of_step: bool = False
    """Whether the error is that of a step in the shared directory, and the directory can be read."""
    is_unreached: bool = False
    """Whether it can be tried again: a holder has not answered, or this process lacks descriptors or memory."""


@dataclass(frozen=True, slots=True)
class LingerResult:
    """The end of lingering."""

    is_drained: bool
    """Whether no other node needs what is here; else its time was over."""


@dataclass(frozen=True, slots=True)
class Note:
    """A sentence for users: why a part was refused or withdrawn."""

    text: str = field(metadata=SENTENCE)


Message = Answer | HoldingsUpdate | ProgressUpdate | PersistUpdate | FetchResult | LingerResult | DrainResult | Note
_MESSAGES: dict[str, type[Message]] = {
    "answer": Answer,
    "holdings": HoldingsUpdate,
    "progress": ProgressUpdate,
    "fetched": FetchResult,
    "lingered": LingerResult,
    "persisted": PersistUpdate,
    "drained": DrainResult,
    "notice": Note,
}
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
