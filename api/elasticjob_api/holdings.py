"""The holdings of one node (`P/c/held/…`): where its keeper listens, and which parts of which steps it has whole.

    k1 <port> <persisted step, or -> <step>:<indices of parts>;<step>:<indices>

Without steps the last word is `-`. A node with a shared directory adds `listed=yes` or `listed=no`, and
`older=<step>;<step>` with further persisted steps. At the end of the node one more word follows, `sealed=<nonce>`. A
newer writer may add words after those that are here: readers ignore them. A step that a record does not name is not
offered to anyone, so it is always safe to leave one out.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from elasticjob_api.errors import RecordError
from elasticjob_api.kept_steps import Holdings, KeptStep, PersistedStep, format_parts, parse_number, parse_parts

MAX_BYTES = 8192
"""The longest record. Those of real nodes have about 100 bytes."""
MAX_STEPS = 32
"""The most steps of a record; a node has three of its own and two of each member that it keeps replicas for."""

MAX_OLDER = 32
"""The most further persisted steps of a record: one of each lineage."""

_MAGIC = "k1"
_NONE = "-"
_SEALED = "sealed="
_LISTED = "listed="
_OLDER = "older="
_IS_LISTED = {"yes": True, "no": False}
_PORT_LIMIT = 65_536


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldingsRecord:
    """The parts that a node has for other nodes, and the port that serves them."""

    port: int
    """The port of the node's keeper, at the address of its node record; 0 if no other node can reach one."""
    steps: Holdings = field(default_factory=dict)
    persisted: PersistedStep | None = None
    """The newest whole step that this node has found in the shared directory."""
    older: tuple[PersistedStep, ...] = ()
    """The newest step that it has found there and may restore of each other lineage, newest first."""
    has_listed: bool | None = None
    """Whether this node has listed the shared directory, so `persisted` is right. None: it has none, or is older."""
    sealed: str = ""
    """The nonce of the state in which nothing is added any more, as no worker of this node runs; else empty."""


def encode_holdings(record: HoldingsRecord) -> bytes:
    """Return the compact form, newest steps first; the oldest are left out if there are too many."""
    head = f"{_MAGIC} {record.port} {record.persisted or _NONE} "
    tail = "" if record.has_listed is None else f" {_LISTED}{'yes' if record.has_listed else 'no'}"
    tail += f" {_OLDER}{';'.join(map(str, record.older[:MAX_OLDER]))}" if record.older else ""
    tail += f" {_SEALED}{record.sealed}" if record.sealed else ""
    words: list[str] = []
    size = len(head) + len(tail)
    for step in sorted(record.steps, reverse=True)[:MAX_STEPS]:
        word = f"{step}:{format_parts(record.steps[step])}"
        size += len(word) + 1
        if size > MAX_BYTES:
            break
        words.append(word)
    return f"{head}{';'.join(words) or _NONE}{tail}".encode()


def decode_holdings(data: bytes) -> HoldingsRecord:
    """Return the holdings in `data`; raise RecordError if it is corrupt, too large or of another version."""
    if len(data) > MAX_BYTES:
        raise RecordError(f"holdings have {len(data)} bytes; {MAX_BYTES} are the most")
    try:
        magic, port, persisted, steps, *more = data.decode("ascii").split(" ")
    except ValueError as error:
        raise RecordError(f"holdings {data!r:.80} are not a line of words") from error
    if magic != _MAGIC:
        raise RecordError(f"holdings are of version {magic!r:.10}, not {_MAGIC}")
    return HoldingsRecord(
        port=_parse_port(port),
        steps={} if steps == _NONE else _parse_steps(steps),
        persisted=None if persisted == _NONE else PersistedStep.parse(persisted),
        older=_parse_older(_word(more, _OLDER)),
        has_listed=_IS_LISTED.get(_word(more, _LISTED)),
        sealed=_word(more, _SEALED),
    )


def _word(words: Iterable[str], prefix: str) -> str:
    """Return what follows the prefix in the first word that has it; an empty text if none has."""
    return next((word.removeprefix(prefix) for word in words if word.startswith(prefix)), "")


def _parse_older(text: str) -> tuple[PersistedStep, ...]:
    words = text.split(";", MAX_OLDER) if text else ()
    return tuple(map(PersistedStep.parse, words[:MAX_OLDER]))


def _parse_port(text: str) -> int:
    if not 0 <= (port := parse_number(text, "port")) < _PORT_LIMIT:
        raise RecordError(f"holdings have port {text!r:.20}")
    return port


def _parse_steps(text: str) -> Holdings:
    words = text.split(";", MAX_STEPS)
    if len(words) > MAX_STEPS:
        raise RecordError(f"holdings have more than {MAX_STEPS} steps")
    steps = dict(_parse_step(word) for word in words)
    if len(steps) < len(words):
        raise RecordError(f"holdings {text!r:.120} name a step twice")
    return steps


def _parse_step(word: str) -> tuple[KeptStep, frozenset[int]]:
    name, _, indices = word.partition(":")
    step = KeptStep.parse(name)
    return step, parse_parts(indices, step.parts)
