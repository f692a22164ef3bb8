"""`spec` of an ElasticJob as frozen dataclasses: names, types and defaults exactly those of the CRD.

A test compares this module with `crds/elasticjob.yaml`. Each field's comment gives unit, default and reason.
The pod template stays a plain dictionary: an unknown field in it must reach the pod untouched.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal

from elasticjob_api.constants import (
    JOIN_TIMEOUT_S,
    KEEP_ALIVE_S,
    KEEP_COPIES,
    KEEP_RESTORE_TIMEOUT_S,
    WarmStart,
)
from elasticjob_api.replica_sizes import ReplicaSizes


class FailureAction(StrEnum):
    """The action of a failure rule."""

    FAIL_JOB = "FailJob"
    RESTART_WORKERS = "RestartWorkers"
    REPLACE_POD = "ReplacePod"
    IGNORE = "Ignore"


class DisruptionBudget(StrEnum):
    """How many of a job's pods a drain must leave."""

    MIN_REPLICAS = "MinReplicas"
    NONE = "None"


class CleanPodPolicy(StrEnum):
    """Which pods are deleted when the job has ended."""

    RUNNING = "Running"
    ALL = "All"
    NONE = "None"


class AgentMode(StrEnum):
    """How the agent gets into the pod."""

    INJECT = "Inject"  # an init container copies it to /opt/elasticjob
    PROVIDED = "Provided"  # the image has `elasticjob-agent` on its PATH


@dataclass(frozen=True, slots=True)
class Rendezvous:
    """Timeouts of the rendezvous."""

    join_timeout_s: float = JOIN_TIMEOUT_S
    """How long too few nodes wait without an operator before the job fails; with an operator, its deadlines decide."""
    last_call_timeout_s: float = 5.0
    """How long a round with at least minReplicas waits for pods that the operator expects soon."""
    keep_alive_s: float = KEEP_ALIVE_S
    """Life of a node's lease after its last refresh: how long a silent node counts as alive (2 at least)."""


@dataclass(frozen=True, slots=True)
class RestartBackoff:
    """Delay between failures of the start; doubles from initial to max."""

    initial_s: float = 1.0
    max_s: float = 300.0


@dataclass(frozen=True, slots=True)
class OnExitCodes:
    """Matches a worker's exit code (128 + number for signals)."""

    operator: Literal["In", "NotIn"] = "In"
    values: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class OnPodCondition:
    """Matches a pod that has this condition."""

    type: str
    status: str = "True"


@dataclass(frozen=True, slots=True)
class Rule:
    """One failure rule; the first that matches wins."""

    action: FailureAction
    name: str = ""
    on_exit_codes: OnExitCodes | None = None
    on_pod_conditions: tuple[OnPodCondition, ...] = ()
    on_reasons: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FailurePolicy:
    """Rules by exit code (applied by the leader) and by pod (applied by the operator)."""

    rules: tuple[Rule, ...] = ()


@dataclass(frozen=True, slots=True)
class GracefulShutdown:
    """The signal that stops workers for a planned change: they may checkpoint and exit within the seconds."""

    signal: str = "SIGTERM"
    seconds: float = 30.0


@dataclass(frozen=True, slots=True)
class Scaling:
    """When joiners interrupt a running round."""

    scale_up_delay_s: float = 10.0
    """How long joiners that do not fill `replicas` wait for more before a round is opened for them."""


@dataclass(frozen=True, slots=True)
class Scheduling:
    """Gang scheduling; schedulerName, labels and priority of the template pass through."""

    gang: Literal["None"] = "None"


@dataclass(frozen=True, slots=True)
class Agent:
    """The node agent."""

    mode: AgentMode = AgentMode.INJECT
    image: str | None = None
    """Image of the agent payload for Inject; unset: the operator's own setting."""
    report_period_s: float = 60.0
    """Time between samples of cpu, memory and progress; changes of state are reported at once."""
    interface: str | None = None
    """Network interface whose address the workers use; unset: the pod's IP."""
    shm_size_limit: str | None = None
    """Size of the memory volume at /dev/shm; unset: the pod's memory limit decides."""
    log_size_limit: str = "2Gi"
    """Size limit of the log volume."""
    warm_start: WarmStart | None = None
    """Unset: the operator's own setting."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Keep:
    """Steps of the training in the memory of the nodes, in a volume of each pod."""

    size_limit: str
    """Size of the volume; it counts against the memory limit of the trainer container."""
    copies: int = KEEP_COPIES
    """Other nodes that get each part of a step: so many may be lost at once."""
    bandwidth: int | str | None = None
    """Bytes a second for copies while workers run; 0: unlimited; unset: 256Mi, with TLS 128Mi."""
    restore_timeout_s: float = KEEP_RESTORE_TIMEOUT_S
    """Time to fetch a step after a loss; then an older step is chosen."""
    persist_to: str | None = None
    """Directory in a volume that all pods share, to which committed steps are written; unset: they are not."""
    persist_every_s: float | None = None
    """Time between two persisted steps; unset: 600."""
    persist_keep: int | None = None
    """The newest whole persisted steps that stay; unset: 2."""
    resume: bool | None = None
    """Whether a new run may begin from a step of an earlier one; unset: true."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSpec:
    """The job as the user wants it."""

    template: Mapping[str, Any]
    """Pod template; the trainer container must name its command."""
    replicas: int = 1
    """Nodes wanted now; `kubectl scale` changes it while the job runs."""
    min_replicas: int | None = None
    """The job runs with no fewer nodes; unset: replicas (a static job)."""
    max_replicas: int | None = None
    """Never more nodes; unset: replicas."""
    replica_step: int | None = None
    """Run only with minReplicas plus a multiple of this many nodes; a value in between is rounded down."""
    allowed_replicas: tuple[int, ...] = ()
    """Run only with one of these numbers of nodes; excludes replicaStep."""
    nproc_per_node: int | Literal["auto"] = "auto"
    """Workers per node; auto: GPUs in the trainer's limits, else 1."""
    trainer_container: str | None = None
    """The container that trains; unset: the first."""
    rendezvous: Rendezvous = field(default_factory=Rendezvous)
    max_restarts: int = 3
    """Worker failures over the job's life that restart the workers; as in torchrun."""
    backoff_limit: int = 6
    """Pod failures that are replaced."""
    restart_window_s: float = 0.0
    """Only failures within this time count; 0: the whole life."""
    restart_backoff: RestartBackoff = field(default_factory=RestartBackoff)
    failure_policy: FailurePolicy = field(default_factory=FailurePolicy)
    pod_replacement_policy: Literal["TerminatingOrFailed", "Failed"] = "TerminatingOrFailed"
    pod_disruption_budget: DisruptionBudget | None = None
    """The pods of the job that a drain leaves; unset: minReplicas of them."""
    stuck_pod_timeout_s: float = 300.0
    """A pod Terminating for so long after its grace, on a node that is not ready, is deleted by force; 0: never."""
    lost_pod_timeout_s: float = 30.0
    """A Running pod whose agent has been gone or stuck for so long is replaced."""
    startup_deadline_s: float | None = None
    """Time from start, resume or scale until minReplicas are in a round; unset: unlimited."""
    active_deadline_s: float | None = None
    """Life of the job from startTime; restarts on resume."""
    progress_deadline_s: float | None = None
    """Without output and with flat cpu on all workers for so long: condition Stalled."""
    ttl_seconds_after_finished: int | None = None
    """The job is deleted so long after its end; unset: never."""
    clean_pod_policy: CleanPodPolicy = CleanPodPolicy.RUNNING
    suspend: bool = False
    """No pods while true; history and counters remain."""
    managed_by: str | None = None
    """The controller of this job; set to another controller's name, our operator writes nothing."""
    scaling: Scaling = field(default_factory=Scaling)
    graceful_shutdown: GracefulShutdown = field(default_factory=GracefulShutdown)
    failure_grace_s: float = 5.0
    """Grace of the other workers after a failure: they hang in a collective."""
    isolation_grace_s: float | None = None
    """An agent that cannot reach etcd for so long stops its workers; unset: never."""
    success_policy: Literal["AllWorkers", "AnyWorker"] = "AllWorkers"
    scheduling: Scheduling = field(default_factory=Scheduling)
    agent: Agent = field(default_factory=Agent)
    keep: Keep | None = None
    """Unset: no step is kept in memory."""

    @property
    def effective_min(self) -> int:
        """Return minReplicas, or replicas when unset."""
        return self.replicas if self.min_replicas is None else self.min_replicas

    @property
    def effective_max(self) -> int:
        """Return maxReplicas, or replicas when unset."""
        return self.replicas if self.max_replicas is None else self.max_replicas

    @property
    def desired_nodes(self) -> int:
        """Return the number of nodes that the job should have: replicas, rounded to an allowed number."""
        sizes = ReplicaSizes(
            min=self.effective_min, max=self.effective_max, step=self.replica_step or 0, allowed=self.allowed_replicas
        )
        return sizes.target(self.replicas)
