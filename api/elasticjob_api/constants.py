"""Every name that other programs use: labels, annotations, environment, conditions, reasons. Each is here once.

The end has the defaults that the spec and the records share.
"""

from enum import StrEnum

GROUP = "elasticjob.io"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"
KIND = "ElasticJob"
PLURAL = "elasticjobs"
MANAGED_BY = f"{GROUP}/operator"
"""`spec.managedBy` of a job that our operator acts on. It ignores a job with another value."""

# Labels on pods.
LABEL_JOB_NAME = f"{GROUP}/job-name"
LABEL_JOB_UID = f"{GROUP}/job-uid"
LABEL_SLOT = f"{GROUP}/slot"
LABEL_TEMPLATE_HASH = f"{GROUP}/template-hash"  # of the spec's part about pods; constant until the job is suspended

# Annotations on pods.
ANNOTATION_INSTALLATION = f"{GROUP}/installation"  # the installation whose operator created it
ANNOTATION_AGENT_IMAGE = f"{GROUP}/agent-image"  # as the operator set it, before admission

# Annotations on a job.
ANNOTATION_RESTART = f"{GROUP}/restart"
"""Its value is the id of a requested restart; a new value restarts the workers once."""

RESERVED_PREFIX = "elasticjob-"
"""Names of volumes, containers and ports with this prefix belong to the operator."""

# Environment of the agent, set in the pod by the operator.
ENV_PREFIX = "ELASTICJOB_PREFIX"  # P: where the job's keys are
ENV_ENDPOINTS = "ELASTICJOB_ETCD_ENDPOINTS"  # comma-separated host:port, or unix:PATH in `elasticjob run`
ENV_ETCD_TLS = "ELASTICJOB_ETCD_TLS"  # folder with ca.crt, tls.crt and tls.key; unset: plain text to etcd
ENV_SLOT = "ELASTICJOB_SLOT"  # this pod's slot, decimal
ENV_SPEC = "ELASTICJOB_SPEC"  # the fields of the spec that the agent needs to join, and the spec's revision
ENV_JOB = "ELASTICJOB_JOB"  # the job's name
ENV_JOB_UID = "ELASTICJOB_JOB_UID"  # the job's uid; workers see it as TORCHELASTIC_RUN_ID
ENV_POD_NAME = "ELASTICJOB_POD_NAME"  # from the downward API
ENV_POD_UID = "ELASTICJOB_POD_UID"
ENV_POD_IP = "ELASTICJOB_POD_IP"
ENV_NODE_NAME = "ELASTICJOB_NODE_NAME"
ENV_NPROC = "ELASTICJOB_NPROC_PER_NODE"
ENV_JOIN_TIMEOUT = "ELASTICJOB_JOIN_TIMEOUT_SECONDS"  # how long an agent tries to reach etcd at its start
ENV_LOG_DIR = "ELASTICJOB_LOG_DIR"  # where logs of rounds and ranks are stored
ENV_INTERFACE = "ELASTICJOB_INTERFACE"  # network interface whose address the agent uses instead of the pod's
ENV_WARM_START = "ELASTICJOB_WARM_START"  # Auto or Off: whether workers may be forked from a zygote
ENV_KEEP_DIR = "ELASTICJOB_KEEP_DIR"  # memory volume in which steps are kept; unset: Keep is off
ENV_KEEP_SIZE_LIMIT = "ELASTICJOB_KEEP_SIZE_LIMIT"  # bytes of that volume
ENV_KEEP_COPIES = "ELASTICJOB_KEEP_COPIES"  # other nodes that get each part of a step
ENV_KEEP_BANDWIDTH = "ELASTICJOB_KEEP_BANDWIDTH"  # bytes a second for copies to other nodes; 0: unlimited
ENV_KEEP_RESTORE_TIMEOUT = "ELASTICJOB_KEEP_RESTORE_TIMEOUT_S"  # seconds in which a step must be restored
ENV_KEEP_PERSIST_TO = "ELASTICJOB_KEEP_PERSIST_TO"  # shared directory of persisted steps; unset: none is persisted
ENV_KEEP_PERSIST_EVERY = "ELASTICJOB_KEEP_PERSIST_EVERY_S"  # seconds between two persisted steps
ENV_KEEP_PERSIST_KEEP = "ELASTICJOB_KEEP_PERSIST_KEEP"  # newest whole steps that stay in that directory
ENV_KEEP_RESUME = "ELASTICJOB_KEEP_RESUME"  # 0: a new run begins from no step of an earlier one
ENV_KEEP_PERSISTED = "ELASTICJOB_KEEP_PERSISTED_STEP"  # a step that was in that directory; it or a newer one is there
ENV_TERMINATION_LOG = "ELASTICJOB_TERMINATION_LOG"  # file for a description of the root cause
ENV_TRACE = "ELASTICJOB_TRACE"  # file for trace points; unset: none are recorded
ENV_LOG_LEVEL = "ELASTICJOB_LOG_LEVEL"  # debug, info, warning or error; how much the agent logs

# Environment of a worker, beside torchrun's own.
ENV_ROUND = "ELASTICJOB_ROUND"  # the round; fences checkpoints
ENV_PROGRESS = "ELASTICJOB_PROGRESS"  # a FIFO for JSON lines {"step", "total", "metrics"}
ENV_KEEP = "ELASTICJOB_KEEP"  # directory of the round in which a script publishes steps; unset: none is kept
ENV_KEPT = "ELASTICJOB_KEPT"  # directory with the whole step to restore; unset: there is none
ENV_KEPT_STEP = "ELASTICJOB_KEPT_STEP"  # number of the step to restore


class Phase(StrEnum):
    """The one word of `kubectl get`; derived from conditions, for display only."""

    PENDING = "Pending"
    STARTING = "Starting"
    RUNNING = "Running"
    RESTARTING = "Restarting"
    RESIZING = "Resizing"
    SUSPENDED = "Suspended"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"


ENV_HEALTH_CHECK_PORT = "TORCHELASTIC_HEALTH_CHECK_PORT"
"""torchrun's name: the port on which the agent's health check answers over HTTP."""


class ConditionType(StrEnum):
    """Types of `status.conditions`."""

    ACCEPTED = "Accepted"
    UNKNOWN_FIELDS = "UnknownFields"
    SUSPENDED = "Suspended"
    QUORUM_REACHED = "QuorumReached"
    RUNNING = "Running"
    RESIZING = "Resizing"
    DEGRADED = "Degraded"
    STALLED = "Stalled"
    RENDEZVOUS_UNAVAILABLE = "RendezvousUnavailable"
    AGENTS_UNREACHABLE = "AgentsUnreachable"
    KEEP_DEGRADED = "KeepDegraded"
    COMPLETE = "Complete"
    FAILED = "Failed"


LOG_ETCD_UNAVAILABLE = "etcd does not answer"
LOG_ETCD_AVAILABLE = "etcd answers again"
"""How lines of the operator's log about etcd begin; `elasticjob doctor` looks for the last of them."""


class FailedReason(StrEnum):
    """Reasons of the condition Failed."""

    BACKOFF_LIMIT = "BackoffLimitExceeded"
    MAX_RESTARTS = "MaxRestartsExceeded"
    DEADLINE = "DeadlineExceeded"
    STARTUP_DEADLINE = "StartupDeadlineExceeded"
    BELOW_MIN = "BelowMinReplicas"
    FAIL_JOB_RULE = "FailJobRule"
    RENDEZVOUS_UNAVAILABLE = "RendezvousUnavailable"
    JOIN_TIMEOUT = "JoinTimeout"
    FOOTPRINT = "FootprintExceeded"


class EventReason(StrEnum):
    """Reasons of the events that the operator emits."""

    CREATED = "Created"
    QUORUM_REACHED = "QuorumReached"
    RENDEZVOUS_COMPLETED = "RendezvousCompleted"
    WORKER_FAILED = "WorkerFailed"
    RESTARTING = "Restarting"
    POD_REPLACED = "PodReplaced"
    SCALED_UP = "ScaledUp"
    SCALED_DOWN = "ScaledDown"
    NODE_LOST = "NodeLost"
    POD_FORCE_DELETED = "PodForceDeleted"
    SUSPENDED = "Suspended"
    RESUMED = "Resumed"
    TEMPLATE_CHANGED = "TemplateChanged"
    STALLED = "Stalled"
    KEEP_DEGRADED = "KeepDegraded"
    KEEP_TOO_SMALL = "KeepTooSmall"
    PERSIST_FAILED = "PersistFailed"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    INVALID_SPEC = "InvalidSpec"
    UNKNOWN_FIELDS = "UnknownFields"
    OWNED_BY_ANOTHER = "OwnedByAnother"


class WarmStart(StrEnum):
    """`spec.agent.warmStart`: whether restarted workers skip the imports of their script."""

    AUTO = "Auto"  # where that is safe
    OFF = "Off"


JOIN_TIMEOUT_S = 600.0
"""Default of `joinTimeoutSeconds`."""
KEEP_ALIVE_S = 6.0
"""Default of `keepAliveSeconds`, the lease of an agent."""
KEEP_DIR = "/var/run/elasticjob/keep"
"""Mount path of a pod's memory volume in which steps are kept."""
KEEP_COPIES = 1
"""Default of `keep.copies`."""
MOST_KEEP_COPIES = 3
KEEP_BANDWIDTH_BYTES = 256 << 20
"""Default of `keep.bandwidth` without TLS, bytes a second."""
KEEP_TLS_BANDWIDTH_BYTES = 128 << 20
"""The same with TLS: encryption takes the processor from the training."""
KEEP_RESTORE_TIMEOUT_S = 120.0
"""Default of `keep.restoreTimeoutSeconds`."""
KEEP_PERSIST_EVERY_S = 600.0
"""Default of `keep.persistEverySeconds`."""
LEAST_KEEP_PERSIST_EVERY_S = 10.0
KEEP_PERSIST_KEEP = 2
"""Default of `keep.persistKeep`."""
MOST_KEEP_PERSIST_KEEP = 100
KEEP_LINGER_S = 30
"""Most seconds that a leaving node serves its kept steps; the operator adds them to the pod's grace."""
KEEP_LINGER_BYTES_PER_S = 100_000_000
"""The speed that these seconds allow for: that of a link of 1 Gbit/s."""
IMPORT_PROFILE_BYTES = 128 * 1024
"""At most, for the recorded imports of one command; those of torch and transformers have about 40 KiB."""
