"""`status` of an ElasticJob: the output of `kubectl get -o yaml`. Rebuilt from pods and rendezvous, never incremented.

Neither the CRD nor a reader restricts phases, states and reasons: a newer operator may write new ones.
"""

from dataclasses import dataclass, field

from elasticjob_api.constants import Phase


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """metav1.Condition; times are RFC 3339, UTC, whole seconds."""

    type: str
    status: str
    """True, False or Unknown."""
    reason: str
    message: str = ""
    last_transition_time: str = ""
    observed_generation: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerStates:
    """The number of workers in each state, over all nodes."""

    pending: int = 0
    starting: int = 0
    running: int = 0
    succeeded: int = 0
    failed: int = 0
    stopped: int = 0
    unknown: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class StartStatus:
    """How the workers of a node were started in their round."""

    kind: str
    """Warm, or Cold if one of them is."""
    reason: str = ""
    """Why they are cold."""
    first_output_milliseconds: int | None = None
    """From their start to the first byte of any; None: none yet, or the agent does not see it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeKeepStatus:
    """The knowledge of one node about the kept steps, and its own holdings in memory."""

    step: int | None = None
    """Number of the newest committed step: it survives the loss of as many nodes as it has copies."""
    round: int | None = None
    """The round whose workers wrote it."""
    copies: int | None = None
    """The fewest other nodes that hold a part of it."""
    bytes: int = 0
    """Held in memory, with all copies."""
    skipped: int = 0
    """Steps that were dropped, uncopied, for newer ones."""
    degraded: str = ""
    """Why parts have fewer copies than requested, why nothing is kept, or why no step is persisted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeepStatus(NodeKeepStatus):
    """The steps of a job that are kept in memory, and on a disk."""

    committed_time: str = ""
    """When a node got to know that `step` is committed."""
    copy_milliseconds: int | None = None
    """From the first part of it on a node until then, at the slowest node; None: not measured."""
    persisted_step: int | None = None
    """Number of the newest step that is whole in `persistTo`."""
    persisted_time: str = ""
    """When it became whole there; empty: not known."""
    persist_error: str = ""
    """Why the last attempt to persist a step failed; empty if it did not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeStatus:
    """One node of the job.

    `ranks` is one letter per local rank: Pending, Starting, Running, Completed, Failed, sTopped (T), Unknown.
    """

    name: str
    pod_name: str
    node_name: str = ""
    rank: int | None = None
    state: str = ""
    ranks: str = ""
    reason: str = ""
    cpu_percent: int | None = None
    """Of all its workers and their descendants, 100 for one core; written twice a minute at most."""
    memory_bytes: int | None = None
    rank_cpu_percent: tuple[int, ...] = ()
    """The same for each worker, by local rank, 0 without a sample. It is empty for a node with one worker, whose value
    is `cpu_percent`, and where the list of nodes would become too long.
    """
    rank_memory_bytes: tuple[int, ...] = ()
    start: StartStatus | None = None
    """None while warm start is off, before the first start, and where the list of nodes would become too long."""
    keep: NodeKeepStatus | None = None
    """None while Keep is off, before the first report, and where the list of nodes would become too long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundStatus:
    """One round of the job's life; the status has the last ones. Times are the operator's, in milliseconds."""

    round: int
    start_time: str
    """When it became active."""
    end_time: str = ""
    """When it stopped being active; empty while it is active."""
    cause: str = ""
    """Why it was opened, one word for programs."""
    message: str = ""
    """The same in a sentence."""
    nodes: int = 0
    workers: int = 0
    slots: str = ""
    """The slots of its members, in rank order, as `0-3,5,4`; cut with `...` beyond 1 KiB."""
    restored_step: int | None = None
    """Number of the kept step that its workers restore; None if there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LastFailure:
    """The root cause of the last failure: the first worker that failed by itself, or the node that was lost."""

    time: str
    round: int
    pod_name: str
    rank: int
    local_rank: int
    exit_code: int
    """As a shell shows it: 128 + number for a signal. For a lost node: that of its pod, 137 if there is none."""
    node_name: str = ""
    signal: str = ""
    reason: str = ""
    message: str = ""
    stderr_tail: str = ""
    """The end of the worker's stderr, at most 1 KiB; the agent's log has more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressStatus:
    """The progress that the training reported."""

    step: int | None = None
    total: int | None = None
    percentage: int | None = None
    estimated_remaining_s: int | None = None
    """At the speed of this round so far; None until a step was observed in it."""
    metrics: dict[str, str] = field(default_factory=dict)
    last_updated_time: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStatus:
    """The whole status."""

    observed_generation: int | None = None
    phase: Phase | str = Phase.PENDING
    """A text that is no `Phase` was written by a newer operator."""
    reason: str = ""
    """One word for display, why the job does not run as wanted; empty while it does."""
    message: str = ""
    conditions: tuple[Condition, ...] = ()
    replicas: int = 0
    ready_replicas: int = 0
    """Nodes in the active round."""
    desired_replicas: int = 0
    terminating_replicas: int = 0
    selector: str = ""
    rendezvous_round: int = 0
    world_size: int = 0
    last_rendezvous_time: str = ""
    last_scale_time: str = ""
    restarts: int = 0
    restarts_count_towards_max: int = 0
    """Those that still count, with restartWindowSeconds."""
    node_losses: int = 0
    pod_replacements: int = 0
    worker_states: WorkerStates = field(default_factory=WorkerStates)
    nodes: tuple[NodeStatus, ...] = ()
    nodes_truncated: bool = False
    rounds: tuple[RoundStatus, ...] = ()
    """The last of them, oldest first."""
    master_pod: str = ""
    installation: str = ""
    """The installation of the operator that the job belongs to. Other installations ignore the job."""
    agent_image: str = ""
    """Image of the agent in this life of the job: its pods get no other one before it is suspended."""
    last_failure: LastFailure | None = None
    progress: ProgressStatus | None = None
    keep: KeepStatus | None = None
    """None while Keep is off, and before the first report."""
    start_time: str = ""
    completion_time: str = ""
