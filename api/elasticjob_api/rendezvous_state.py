"""The rendezvous state of a job (`P/c/ctl/world`), its leader and its members: compact, as every agent watches them.

One line of `name=value` words (percent-encoded), a newline, then the members, twelve bytes each in rank order: four
hex digits of slot, eight of incarnation. Nothing here is JSON, because a thousand agents read every change. Some fields
remain texts, which the functions below encode and decode for the few readers that need their parts.

A newer writer may add names and causes, and words after those that are here: readers ignore them. It may not add a
phase that older readers miss: a state with an unknown phase cannot be read, and its reader waits.
"""

import functools
import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from enum import Enum
from typing import Any, TypeVar
from urllib.parse import quote, unquote

from elasticjob_api.errors import RecordError
from elasticjob_api.kept_steps import History, KeptStep, Lineage, parse_number
from elasticjob_api.keys import SLOT_LIMIT, FailureKey
from elasticjob_api.one_line import one_line

MEMBER_BYTES = 12
_MAGIC = "w1"
_SAFE = ":.,-_/x*[]"
_WORKERS_MARK, _ROLE_MARK = "x", "*"
_LOGGED_MESSAGE = 600

T = TypeVar("T")


class RoundPhase(Enum):
    """Phases of a job's rendezvous, in the order in which (round, phase) may grow."""

    FORMING = "forming"
    ACTIVE = "active"
    SUSPENDED = "suspended"
    SUCCEEDED = "succeeded"
    FAILED = "failed"

    @property
    def is_final(self) -> bool:
        """Whether nothing starts and nothing is written after it."""
        return self in {RoundPhase.SUCCEEDED, RoundPhase.FAILED}


class Cause(Enum):
    """Why a round was opened, or a job ended."""

    FIRST = "First"
    WORKER_FAILED = "WorkerFailed"
    NODE_LEFT = "NodeLeft"
    NODE_LOST = "NodeLost"
    NODE_JOINED = "NodeJoined"
    SCALED_DOWN = "ScaledDown"
    RESTART_REQUESTED = "RestartRequested"
    SUSPENDED = "Suspended"
    RESUMED = "Resumed"
    SUCCEEDED = "Succeeded"
    MAX_RESTARTS = "MaxRestartsExceeded"
    FAIL_JOB_RULE = "FailJobRule"
    JOIN_TIMEOUT = "JoinTimeout"
    RESTORE_FAILED = "RestoreFailed"
    OPERATOR = "Operator"
    UNKNOWN = "Unknown"
    """A cause that a newer version wrote; the `message` of the state describes it."""

    @classmethod
    def _missing_(cls, _value: object) -> "Cause":
        return cls.UNKNOWN


@dataclass(frozen=True, slots=True, order=True)
class Member:
    """A slot in a round, and the incarnation that occupies it."""

    slot: int
    incarnation: str

    @property
    def token(self) -> str:
        """Return the twelve characters of the encoded form."""
        return f"{self.slot:04x}{self.incarnation}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RendezvousState:
    """The state of a job's rendezvous; written by compare-and-swap only (docs/architecture/rendezvous.md)."""

    phase: RoundPhase
    round: int
    nonce: str
    restarts: int = 0
    """Worker failures charged so far to spec.maxRestarts."""
    node_losses: int = 0
    """Rounds in which nodes were lost; never charged."""
    cause: Cause = Cause.FIRST
    message: str = ""
    """A short sentence for people: the event."""
    root_cause: str = ""
    """The root cause of the last round with a verdict: the text of its `FailureKey`."""
    has_verdict: bool = False
    """The membership in `P/c/members` has had its verdict; it gets one only."""
    loss_grace_spent: bool = False
    restart_id: str = ""
    startup_failures: int = 0
    """Consecutive failures of the start, up to the last verdict: the back-off grows with them."""
    port_retries: int = 0
    """Consecutive rounds that ended because MASTER_PORT was taken; not charged, but bounded."""
    charged_failures: str = ""
    """The failures that counted at the last verdict before this round (`encode_charged_failures`).
    Only with a restart window. Verdicts alone write it, so each value is written once."""
    master: str = ""
    """`host:port` for the workers (IPv6 in brackets); set in ACTIVE."""
    nprocs: str = ""
    """Workers per member (`encode_layout`); `workers_per_node` reads it."""
    roles: str = ""
    """Roles per member, encoded likewise."""
    run: str = ""
    """The id of the run that all kept steps belong to, drawn with the first active state; empty while Keep is off."""
    history: str = ""
    """The steps that the training descends from: the text of a `History`, which `kept_history` reads."""
    older: str = ""
    """Older steps that it descends from, and that count in the shared directory only: the text of a `History`."""
    restore: str = ""
    """The step that every member restores: the text of a `KeptStep`, which `step_to_restore` reads. Set in ACTIVE."""
    sources: str = ""
    """Which members hold the parts of that step. Set in ACTIVE, and left out if it would be long."""
    shift: str = ""
    """How far apart, in rank order, a member and its replica are; `replica_shift` reads it."""
    members: tuple[Member, ...] = ()

    @property
    def is_failure_stop(self) -> bool:
        """Whether a failure opened this round: its workers hang in a collective, and get a short grace."""
        return self.cause in {Cause.WORKER_FAILED, Cause.NODE_LOST, Cause.RESTORE_FAILED}

    @property
    def summary(self) -> str:
        """Return round, phase and cause in one line for the log."""
        # The worker itself has written its failure, and the agent's last line has the reason of the end.
        is_of_worker = self.phase is RoundPhase.FORMING and self.cause is Cause.WORKER_FAILED
        is_logged = is_of_worker or self.phase.is_final
        message = "" if is_logged else one_line(self.message, _LOGGED_MESSAGE)
        return f"round {self.round} is {self.phase.value}: {self.cause.value} {message}".rstrip()

    @property
    def order(self) -> tuple[int, int]:
        """Return the pair that never decreases, except by a wipe."""
        return self.round, list(RoundPhase).index(self.phase)

    @property
    def root_failure(self) -> FailureKey | None:
        """The failure that `root_cause` names; None if there is none, or if it cannot be read."""
        return FailureKey.parse(self.root_cause)

    def workers_per_node(self) -> list[int]:
        """Return the number of workers of each member, in rank order; raise RecordError if it cannot be read."""
        return _from_run_lengths(self.nprocs, _WORKERS_MARK, _worker_count)

    def kept_history(self) -> History:
        """Return the steps that the training descends from; raise RecordError if they cannot be read."""
        return History.parse(self.history)

    def older_history(self) -> History:
        """Return the steps that count in the shared directory only; none if they cannot be read."""
        try:
            return History.parse(self.older)
        except RecordError:
            return History()

    def step_to_restore(self) -> KeptStep | None:
        """Return the step that every member restores, None if there is none; raise RecordError if it cannot be read."""
        return KeptStep.parse(self.restore) if self.restore else None

    def replica_shift(self) -> int:
        """Return how far apart a member and its replica are, 0 if that is unknown."""
        try:
            return parse_number(self.shift, "shift")
        except RecordError:
            return 0

    def history_of_next_round(self) -> str:
        """Return the history after this state: an active round adds its own lineage, with all of its steps.

        It is empty while Keep is off. Nothing that cannot be read is in it: no step of it is restored.
        """
        if not self.run or self.phase is not RoundPhase.ACTIVE:
            return self.history
        try:
            lineage = Lineage(self.round, self.nonce)
        except RecordError:
            return self.history
        return str(self._readable_history().with_lineage(lineage))

    def _readable_history(self) -> History:
        try:
            return self.kept_history()
        except RecordError:
            return History()


def next_round(
    state: RendezvousState, nonce: str, cause: Cause, message: str = "", *, restart_id: str | None = None
) -> RendezvousState:
    """Return the state that opens the round after `state`, with the same counters."""
    return RendezvousState(
        phase=RoundPhase.FORMING,
        round=state.round + 1,
        nonce=nonce,
        restarts=state.restarts,
        node_losses=state.node_losses,
        cause=cause,
        message=message,
        root_cause=state.root_cause,
        restart_id=state.restart_id if restart_id is None else restart_id,
        startup_failures=state.startup_failures,
        port_retries=state.port_retries,
        charged_failures=state.charged_failures,
        run=state.run,
        history=state.history_of_next_round(),
        older=state.older,
        shift=state.shift,
    )


_BOOLS = {"judged", "held"}
_ALWAYS = {"round", "restarts", "losses"}
_INTS = _ALWAYS | {"strikes", "port_retries"}


_WIRE = {
    "phase": "state",
    "node_losses": "losses",
    "message": "detail",
    "root_cause": "root",
    "has_verdict": "judged",
    "loss_grace_spent": "held",
    "startup_failures": "strikes",
    "charged_failures": "charges",
}
"""Field → its name in the record, where the two differ."""
_NAMES = {f.name: _WIRE.get(f.name, f.name) for f in fields(RendezvousState) if f.name != "members"}
_FIELDS = {name: field for field, name in _NAMES.items()}


def encode_state(state: RendezvousState) -> bytes:
    """Return the compact form, without empty and false fields."""
    words = [_MAGIC]
    for field, name in _NAMES.items():
        value = getattr(state, field)
        if value or name in _ALWAYS:
            words.append(f"{name}={quote(_text(value), safe=_SAFE)}")
    return f"{' '.join(words)}\n{encode_members(state.members)}".encode()


def _text(value: Any) -> str:
    if isinstance(value, Enum):
        return str(value.value)
    return "1" if value is True else str(value)


@functools.lru_cache(maxsize=4)
def decode_state(data: bytes) -> RendezvousState:
    """Return the state in `data`; raise RecordError if it is corrupt or of another version."""
    head, _, tail = data.partition(b"\n")
    try:
        magic, *words = head.decode().split(" ")
        if magic != _MAGIC:
            raise RecordError(f"rendezvous state is of version {magic[:8]!r}, not {_MAGIC}")
        values = dict(word.split("=", 1) for word in words)
        parsed = {_FIELDS[name]: _value(name, unquote(text)) for name, text in values.items() if name in _FIELDS}
        return RendezvousState(**parsed, members=decode_members(tail))
    except (ValueError, TypeError, KeyError) as error:
        raise RecordError(f"rendezvous state is corrupt: {error}") from error


def _value(name: str, text: str) -> Any:
    if name in _BOOLS:
        return text == "1"
    if name in _INTS:
        return int(text)
    if name == "state":
        return RoundPhase(text)
    return Cause(text) if name == "cause" else text


def encode_members(members: tuple[Member, ...]) -> str:
    """Return the members in rank order, twelve characters each."""
    return "".join(member.token for member in members)


def decode_members(data: bytes) -> tuple[Member, ...]:
    """Return the members in `data`; raise RecordError unless it is a whole number of them."""
    if len(data) % MEMBER_BYTES:
        raise RecordError(f"member list of {len(data)} bytes is not a multiple of {MEMBER_BYTES}")
    text = data.decode("ascii")
    tokens = [text[i : i + MEMBER_BYTES] for i in range(0, len(text), MEMBER_BYTES)]
    return tuple(Member(int(token[:4], 16), token[4:]) for token in tokens)


@dataclass(frozen=True, slots=True)
class Membership:
    """`P/c/members`: the members of the last active round."""

    round: int
    members: tuple[Member, ...]


def encode_membership(membership: Membership) -> bytes:
    """Return `<round>`, newline, members."""
    return f"{membership.round}\n{encode_members(membership.members)}".encode()


def decode_membership(data: bytes) -> Membership:
    """Return the membership in `data`; raise RecordError if it is corrupt."""
    head, _, tail = data.partition(b"\n")
    try:
        return Membership(int(head.partition(b" ")[0]), decode_members(tail))
    except ValueError as error:
        raise RecordError(f"members record is corrupt: {error}") from error


@dataclass(frozen=True, slots=True)
class Leader:
    """`P/c/ctl/closer`: the leader, and `host:port` of its link listener (`link`, may be empty)."""

    member: Member
    link: str = ""


def encode_leader(leader: Leader) -> bytes:
    """Return member token, space, link."""
    return f"{leader.member.token} {leader.link}".encode()


def decode_leader(data: bytes) -> Leader:
    """Return the leader in `data`; raise RecordError if it is corrupt."""
    token, _, words = data.partition(b" ")
    try:
        (member,) = decode_members(token)
        return Leader(member, words.partition(b" ")[0].decode())
    except ValueError as error:
        raise RecordError(f"leader record is corrupt: {error}") from error


def encode_layout(nodes: Iterable[tuple[int, str]]) -> tuple[str, str]:
    """Return (nprocs, roles) of nodes in rank order, each a number of workers and a role.

    Three trainers with two workers each and a parameter server are `2x3,1x1` and `trainer*3,ps*1`.
    """
    nodes = list(nodes)
    nprocs = _run_lengths((str(workers) for workers, _ in nodes), _WORKERS_MARK)
    # A role is text of the user and may contain a comma or a star.
    return nprocs, _run_lengths((quote(role, safe="") for _, role in nodes), _ROLE_MARK)


def decode_layout(nprocs: str, roles: str) -> list[tuple[int, str]]:
    """Return the number of workers and the role of each node, in rank order; RecordError if they cannot be read."""
    workers = _from_run_lengths(nprocs, _WORKERS_MARK, _worker_count)
    names = _from_run_lengths(roles, _ROLE_MARK, unquote)
    if len(workers) != len(names):
        raise RecordError(f"{len(workers)} nodes have workers, {len(names)} have roles")
    return list(zip(workers, names, strict=True))


def _worker_count(text: str) -> int:
    if not 0 <= (count := int(text)) < SLOT_LIMIT:
        raise ValueError(f"{count} workers of a node")
    return count


def _run_lengths(values: Iterable[str], mark: str) -> str:
    return ",".join(f"{value}{mark}{sum(1 for _ in alike)}" for value, alike in itertools.groupby(values))


def _from_run_lengths(text: str, mark: str, convert: Callable[[str], T]) -> list[T]:
    """Return the values of a run-length code; RecordError if it is corrupt, or has more values than slots exist."""
    words = (word.rsplit(mark, 1) for word in text.split(",") if word)
    try:
        runs = [(convert(value), int(count)) for value, count in words]
    except ValueError as error:
        raise RecordError(f"run lengths {text!r:.60} are corrupt") from error
    if any(count < 0 for _, count in runs) or sum(count for _, count in runs) > SLOT_LIMIT:
        raise RecordError(f"run lengths {text!r:.60} describe more than {SLOT_LIMIT} nodes")
    return [value for value, count in runs for _ in range(count)]


def encode_charged_failures(round_: int, ages_s: Iterable[float]) -> str:
    """Return `<round>:<age>,<age>`: the age in seconds of each failure that counts at a verdict of this round."""
    return f"{round_}:" + ",".join(f"{age_s:.1f}" for age_s in ages_s)


def charged_ages_s(text: str) -> tuple[float, ...]:
    """Return the ages in a text of `encode_charged_failures`; none if it cannot be read."""
    try:
        return tuple(float(age_s) for age_s in text.partition(":")[2].split(",") if age_s)
    except ValueError:
        return ()
