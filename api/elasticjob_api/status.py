"""`status` of an ElasticJob: what `kubectl get -o yaml` shows. Rebuilt from pods and rendezvous, never incremented.

No word in it is limited by the CRD or by a reader: an operator that is newer than either of them may have new ones.
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
    """How many workers are in which state, over all nodes."""

    pending: int = 0
    starting: int = 0
    running: int = 0
    succeeded: int = 0
    failed: int = 0
    stopped: int = 0
    unknown: int = 0


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
    """Of all its workers with the processes that they started, 100 for one core; written twice a minute at most."""
    memory_bytes: int | None = None
    rank_cpu_percent: tuple[int, ...] = ()
    """The same of each worker, by local rank, 0 where none was sampled. Empty for a node of one, whose `cpu_percent` it
    is, and where the list of nodes would become too long.
    """
    rank_memory_bytes: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundStatus:
    """One round of the job's life; the last of them are kept. Times are as the operator saw them, in milliseconds."""

    round: int
    start_time: str
    """When it became active."""
    end_time: str = ""
    """When it was active no more; empty while it is."""
    cause: str = ""
    """Why it was opened, one word for programs."""
    message: str = ""
    """The same in a sentence."""
    nodes: int = 0
    workers: int = 0
    slots: str = ""
    """The slots that took part, in rank order, as `0-3,5,4`; cut with `...` beyond 1 KiB."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LastFailure:
    """The root cause of the last failure: the first worker that failed by itself, or the node that was lost."""

    time: str
    round: int
    pod_name: str
    rank: int
    local_rank: int
    exit_code: int
    """As a shell shows it: 128 + number for a signal; of a lost node the pod's, 137 if there is none."""
    node_name: str = ""
    signal: str = ""
    reason: str = ""
    message: str = ""
    stderr_tail: str = ""
    """The end of what the worker wrote to stderr, at most 1 KiB; the agent's log has more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressStatus:
    """The progress that the training reported."""

    step: int | None = None
    total: int | None = None
    percentage: int | None = None
    estimated_remaining_s: int | None = None
    """At the speed of this round so far; None until it has made a step that was seen."""
    metrics: dict[str, str] = field(default_factory=dict)
    last_updated_time: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStatus:
    """The whole status."""

    observed_generation: int | None = None
    phase: Phase | str = Phase.PENDING
    """A text that is no `Phase` is a newer operator's word."""
    reason: str = ""
    """One word for display, why the job does not run as wished; empty while it does."""
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
    """Those that count still, with restartWindowSeconds."""
    node_losses: int = 0
    pod_replacements: int = 0
    worker_states: WorkerStates = field(default_factory=WorkerStates)
    nodes: tuple[NodeStatus, ...] = ()
    nodes_truncated: bool = False
    rounds: tuple[RoundStatus, ...] = ()
    """The last of them, oldest first."""
    master_pod: str = ""
    installation: str = ""
    """Which installation of the operator the job belongs to. The others leave it alone."""
    agent_image: str = ""
    """Image of the agent in this life of the job: its pods get no other one before it is suspended."""
    last_failure: LastFailure | None = None
    progress: ProgressStatus | None = None
    start_time: str = ""
    completion_time: str = ""
