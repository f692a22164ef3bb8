"""The records of a running job in etcd, except the rendezvous state (see `rendezvous_state.py`), and their JSON.

Every record is a frozen dataclass with a version. A newer writer may add fields and values under the same version:
`decode` ignores those that it does not know. A change that an older reader must not miss takes another version.
`decode` raises RecordError for that and for broken records. A reader then logs the key and ignores it: no record in
etcd may crash a reader. Fields at their default are not written, so an older reader sees only fields that a job uses.
"""

import json
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, TypeVar

from elasticjob_api import codec, slot_map
from elasticjob_api.constants import JOIN_TIMEOUT_S, KEEP_ALIVE_S
from elasticjob_api.errors import CodecError, RecordError
from elasticjob_api.replica_sizes import ReplicaSizes

VERSION = 1
NO_ROUND = 0
"""`NodeRecord.ready` of an agent that has run no worker since it joined; rounds begin at 1."""

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class SlotOwner:
    """The one pod that owns a slot; `topology` is a sort key that keeps neighbours together."""

    pod: str
    topology: str = ""


def _pack(owners: dict[int, SlotOwner]) -> slot_map.Packed:
    return slot_map.pack((slot, owner.pod, owner.topology) for slot, owner in owners.items())


def _unpack(value: Any, path: str) -> dict[int, SlotOwner]:
    return {slot: SlotOwner(pod, topology) for slot, pod, topology in slot_map.unpack(value, path)}


@dataclass(frozen=True, slots=True)
class FailureRule:
    """The action for a worker's exit code that is one of `values`, or for any if `values` is empty."""

    action: str
    values: tuple[int, ...] = ()
    negate: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SpecRecord:
    """`P/c/spec`: the wanted state. The operator writes it; without an operator, the first agent does."""

    min: int
    max: int
    desired: int
    slots: dict[int, SlotOwner] = field(default_factory=dict, metadata=codec.with_codec(_pack, _unpack))
    """Slot → owner. Empty without an operator: there, the oldest node key owns its slot."""
    operator: str | None = None
    """The operator's id; None for a job of the command line."""
    max_restarts: int = 3
    failure_rules: tuple[FailureRule, ...] = ()
    success_policy: str = "AllWorkers"
    join_timeout_s: float = JOIN_TIMEOUT_S
    last_call_timeout_s: float = field(default=5.0, metadata=codec.named("lastCallSeconds"))
    scale_up_delay_s: float = 10.0
    failure_grace_s: float = 5.0
    graceful_shutdown_s: float = field(default=30.0, metadata=codec.named("stopGraceSeconds"))
    stop_signal: str = "SIGTERM"
    report_period_s: float = 60.0
    restart_id: str = ""
    suspended: bool = False
    replacements: int = 0
    keep_alive_s: float = KEEP_ALIVE_S
    """`rendezvous.keepAliveSeconds`: the lease of an agent; without a refresh for so long it counts as gone."""
    replica_step: int = 0
    """`replicaStep`: a round has `min` nodes and a multiple of this more; 0: any number."""
    allowed_replicas: tuple[int, ...] = ()
    """`allowedReplicas`: a round has one of these numbers of nodes; empty: any."""
    first_round: int = 1
    first_restarts: int = 0
    progress_deadline_s: float = 0.0
    """`progressDeadlineSeconds`: workers silent and idle (or spinning) for so long are suspected to hang; 0: never."""
    restart_window_s: float = 0.0
    """Only failures younger than this count towards `max_restarts`; 0: all failures of the job's life."""
    backoff_initial_s: float = 1.0
    """Delay before the restart after the second consecutive failure without progress.

    It doubles with each further failure. The first restart is immediate.
    """
    backoff_max_s: float = 300.0
    isolation_grace_s: float | None = None
    """`isolationGraceSeconds`: an agent without an answer of etcd for so long stops its workers; None: never."""
    keep_copies: int | None = None
    """`keep.copies`: how many other nodes get each part of a step; None: Keep is off."""

    @property
    def sizes(self) -> ReplicaSizes:
        """Return the numbers of nodes that a round may have."""
        return ReplicaSizes(min=self.min, max=self.max, step=self.replica_step, allowed=self.allowed_replicas)

    @property
    def target_size(self) -> int:
        """Return the number of nodes that a round should have."""
        return self.sizes.target(self.desired)

    def owner(self, slot: int) -> SlotOwner | None:
        """Return the pod that owns `slot`, or None."""
        return self.slots.get(slot)


@dataclass(frozen=True, slots=True)
class ExpectedSlots:
    """`P/c/expected`: slots whose pod the operator expects within lastCallTimeoutSeconds."""

    slots: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRecord:
    """`P/c/nodes/<slot>.<incarnation>`: one session of one agent."""

    pod: str
    pod_uid: str
    lease: int
    host: str
    address: str
    nproc: int
    role: str = "default"
    master_port: int = 0
    link_port: int = 0
    ready: int = NO_ROUND
    leaving: bool = False
    topology: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerFailure:
    """`P/c/failures/<round>/<slot>.<local rank>`: how one worker failed."""

    incarnation: str
    rank: int
    exit_code: int
    """As in `subprocess`: negative is a signal."""
    signal: str = ""
    message: str = ""
    pod: str = ""
    host: str = ""
    pid: int = 0
    time_ns: int = 0
    """Wall clock of the node, for display; etcd has the order of failures."""
    stopped_by_agent: bool = field(default=False, metadata=codec.named("killedByUs"))
    late: bool = False
    """Another agent opened the round first. The failure counts for the cause, never for the charge."""
    oom: bool = False
    startup: bool = False
    """The worker ended soon after its start, and no worker of its node had shown a sign of work. An immediate restart
    may well fail again.
    """
    port_taken: bool = False
    """Rank 0 found MASTER_PORT taken by another process. This is not charged; the next attempt has another port."""
    stderr: str = ""
    """The end of the worker's stderr, 4 KiB at most."""


@dataclass(frozen=True, slots=True)
class Completion:
    """`P/c/done/<round>/<slot>`: all workers of this member exited 0."""

    incarnation: str


class TombstoneReason(StrEnum):
    """How an incarnation is known to have ended."""

    LEFT = "left"
    REFUSED = "refused"
    POD_DELETED = "podDeleted"
    POD_FAILED = "podFailed"
    SUPERSEDED = "superseded"
    WEDGED = "wedged"
    UNKNOWN = "unknown"
    """A reason that a newer version wrote."""

    @classmethod
    def _missing_(cls, _value: object) -> "TombstoneReason":
        return cls.UNKNOWN


@dataclass(frozen=True, slots=True)
class Tombstone:
    """`P/c/gone/<slot>.<incarnation>`."""

    reason: TombstoneReason
    detail: str = ""


class WorkerState(StrEnum):
    """States of one worker, as the compatible API names them."""

    UNKNOWN = "UNKNOWN"
    INIT = "INIT"
    HEALTHY = "HEALTHY"
    UNHEALTHY = "UNHEALTHY"
    STOPPED = "STOPPED"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"

    @classmethod
    def _missing_(cls, _value: object) -> "WorkerState":
        return cls.UNKNOWN


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerReport:
    """One worker as its agent sees it."""

    rank: int
    state: WorkerState
    pid: int = 0
    exit_code: int | None = None
    cpu_percent: float | None = None
    """Only earlier agents write samples here, see `split_samples`."""
    memory_bytes: int | None = None
    """As `cpu_percent`."""


@dataclass(frozen=True, slots=True)
class Progress:
    """The training's report through ELASTICJOB_PROGRESS; values of metrics are kept as text."""

    step: int | None = None
    total: int | None = None
    metrics: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryTimings:
    """How long the steps of a round took one agent, by its own clock; None: it had no part in the step."""

    detect_s: float | None = None
    """From the event (a worker's end, a peer's broken link) to the round that this agent opened for it."""
    stop_s: float | None = None
    """From seeing that round to its stopped workers being recorded."""
    agree_s: float | None = None
    """From then to seeing the round active; the agent that is ready last waits least."""
    restore_s: float | None = None
    """From then to having the kept step; None: the round restores none."""
    start_s: float | None = None
    """From then to the start of its workers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StartReport:
    """How the workers of a node were started in a round; only agents whose warm start is on write it."""

    warm: int = 0
    """Number of workers that were started warm; all others are cold."""
    cold_reason: str = ""
    """Why workers are cold; empty if all are warm."""
    first_output_s: float | None = None
    """From the start of the first worker to the first byte of any; None: none yet, or the agent does not see it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeepReport:
    """The memory of one node's keeper and what it knows of the job; only agents of a job with Keep write it."""

    round: int = 0
    """Round of the lineage of the committed step; 0: no step is committed."""
    step: int | None = None
    """Number of the newest step that this node knows to be committed; None: none is."""
    copies: int | None = None
    """The fewest other nodes that hold a part of its own of that step; None: no part of it is its own."""
    committed_ns: int = 0
    """Wall clock of the node when it got to know that this step is committed; 0: none is, or an earlier agent wrote."""
    copy_s: float | None = None
    """From the first part of it on this node until then; None: it was there before the agent, or is not there."""
    held_bytes: int = 0
    """Bytes of all parts on this node, its own and those of others."""
    size_limit_bytes: int = 0
    """Bytes that the volume can have: less than `keep.sizeLimit` on a node with less memory; 0: not known."""
    skipped: int = 0
    """Its own steps that were dropped, uncopied, for newer ones since the keeper started."""
    persisted_step: int | None = None
    """Number of the newest whole step in `keep.persistTo` that this node knows; None: it knows none."""
    persisted_ns: int = 0
    """Wall clock of a node when that step became whole; 0: not known."""
    persist_error: str = ""
    """Why the last attempt to persist a step failed; empty if it did not."""
    is_waiting: bool = False
    """Whether it runs no worker until it can read `keep.persistTo`; then `persist_error` has the reason."""
    restoring: int | None = None
    """Number of the step that this node must have before its workers start; None: they wait for no step."""
    degraded: str = ""
    """Why its parts have fewer copies than `keep.copies`, or why nothing is kept; empty if all is well."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeReport:
    """`P/r/<slot>.<incarnation>`: written on each change of state."""

    pod: str
    pod_uid: str
    round: int
    group_rank: int | None = None
    workers: tuple[WorkerReport, ...] = ()
    progress: Progress | None = None
    """Only earlier agents write samples here, see `split_samples`."""
    restart_count: int = 0
    time_ns: int = 0
    """As `progress`."""
    stalled_since_ns: int = 0
    """Wall clock since when the workers are suspected to hang; 0 if they are not."""
    recovery: RecoveryTimings | None = None
    """Of `round`, once its workers were started."""
    start: StartReport | None = None
    """Of `round`, once its workers were started; None while warm start is off."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSamples:
    """`P/r/<slot>.<incarnation>/samples`: written with each report, and alone in every report period."""

    round: int
    cpu_percent: tuple[float | None, ...] = ()
    """By local rank; 100 is one core. None: the worker was not measured."""
    memory_bytes: tuple[int | None, ...] = ()
    """By local rank."""
    progress: Progress | None = None
    time_ns: int = 0
    keep: KeepReport | None = None
    """None while Keep is off."""


def split_samples(report: NodeReport) -> tuple[NodeReport, NodeSamples | None]:
    """Return a report without samples, and the samples that an earlier agent wrote into it."""
    if not report.time_ns:  # agents that write samples elsewhere write no time here
        return report, None
    samples = NodeSamples(
        round=report.round,
        cpu_percent=tuple(worker.cpu_percent for worker in report.workers),
        memory_bytes=tuple(worker.memory_bytes for worker in report.workers),
        progress=report.progress,
        time_ns=report.time_ns,
    )
    workers = tuple(replace(worker, cpu_percent=None, memory_bytes=None) for worker in report.workers)
    return replace(report, workers=workers, progress=None, time_ns=0), samples


def encode(record: Any) -> bytes:
    """Return a record as versioned JSON."""
    return json.dumps({"v": VERSION, **codec.write(record)}, separators=(",", ":")).encode()


def decode(cls: type[R], data: bytes) -> R:
    """Return the known fields of the record in `data`; raise RecordError for another version or a broken record."""
    try:
        value = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise RecordError(f"{cls.__name__} record is not JSON: {error}") from error
    if not isinstance(value, dict) or value.pop("v", None) != VERSION:
        raise RecordError(f"{cls.__name__} record is not of version {VERSION}")
    try:
        return codec.read_known(cls, value)
    except CodecError as error:
        raise RecordError(f"{cls.__name__} record does not fit: {error}") from error
