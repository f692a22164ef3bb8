"""The knowledge of this process about one job beyond its caches: which names it wrote, and which pods were deleted.

A pod's name may be created only by the process that wrote it into the slot map, at most once. It is never created after
the API server reported that it does not exist. All of this is deliberately lost with the process. A new process has
written no name, so it reads from the API server before it trusts a cache. Only the job's own worker task uses its
state.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from elasticjob_api.status import JobStatus, RoundStatus
from elasticjob_operator.model.cluster_interface import Resource
from elasticjob_operator.model.event import Event
from elasticjob_operator.model.failed_creation import FailedCreation
from elasticjob_operator.model.last_seen import LastSeen
from elasticjob_operator.model.recovery import RecoveryTracker
from elasticjob_operator.model.revision import Revision
from elasticjob_operator.model.slot_history import SlotHistory
from elasticjob_operator.model.worker_starts import StartTracker

REQUEST_TIMEOUT_S = 60.0
"""Seconds after which an unanswered request has taken effect or never will: the API server has timed out by then."""
NOTHING: Mapping[str, Any] = {}
"""The applied object where none is wanted."""
WATCH_DEADLINE_S = 5.0
"""Seconds after which a written object is doubted if no watch has delivered it."""


class NameState(Enum):
    """The state of a pod name whose pod is in no cache."""

    EXPECTED = "expected"  # written by this process, and certainly not created yet
    CREATED = "created"  # it exists; the watch will deliver it
    UNKNOWN = "unknown"  # written by another process, or the creation had no answer: read it
    ABSENT = "absent"  # it existed and is gone: the slot needs another name
    NEVER_CREATED = "never created"  # its creation failed without an answer: the slot needs another name


@dataclass(frozen=True, slots=True)
class Certified:
    """The job's certificate, whose user was created in the etcd after this number of wipes."""

    store: int
    renew_at_s: float


@dataclass(slots=True)
class JobState:
    """The state of one job in this process; times are seconds of the monotonic clock."""

    expected_pods: set[str] = field(default_factory=set)
    sent_creations: dict[str, tuple[int, float]] = field(default_factory=dict)
    """Name of a pod whose creation was sent and that no watch has delivered → its slot, and the time of the request."""
    created_at_s: dict[str, float] = field(default_factory=dict)
    absent_pods: set[str] = field(default_factory=set)
    unanswered_creations: set[str] = field(default_factory=set)
    """Names whose creation this process requested without an answer."""
    deleted_uids: set[str] = field(default_factory=set)
    """Pods that were deleted, or whose name another pod has."""
    agent_seen: set[str] = field(default_factory=set)
    """Uids of pods whose agent has joined at some time."""
    agentless_since_s: dict[str, float] = field(default_factory=dict)
    """Uid of a running pod → since when it has no live agent."""
    unreachable: frozenset[str] = frozenset()
    """The uids among them that are exempt, because many agents became unreachable at once."""
    written: tuple[int, int] = (0, 0)
    """Number of wipes of etcd and revision of our last write: no plan is made from an older view."""
    applied: dict[Resource, Mapping[str, Any]] = field(default_factory=dict)
    """Service and disruption budget as last applied by this process; `NOTHING` for a removed one."""
    resync_at_s: float = 0.0
    """The time from which earlier objects are applied again; 0 before the first reconcile."""
    certified: Certified | None = None
    """The last certificate that this process issued."""
    profile_kept: tuple[int, bool] | None = None
    """The moment at which the job's import profile was last kept; see `KeepImportProfile`."""
    namespace_uid: str = ""
    """The uid of the job's namespace, once it was needed for a profile."""
    refused_profile: int = 0
    """The revision in etcd of the import profile that was last refused."""
    has_user: bool = False
    """Whether this process has created the job's user in etcd, has tried to, or has found it there."""
    avoided_until_s: dict[str, float] = field(default_factory=dict)
    """Nodes that lost a pod recently; replacements avoid them."""
    slot_histories: Mapping[int, SlotHistory] | None = None
    """Slot → history of its pods; None until the first reconcile."""
    failed_creation_reason: str = ""
    """The API server's last error message, as long as it applies."""
    failed_creation: FailedCreation | None = None
    """The last attempt to create pods, if it failed."""
    status: JobStatus | None = None
    """The status last written by this process; it is newer than the cached job's."""
    status_written_s: float = float("-inf")
    deferred_writes: int = 0
    """Number of consecutive status writes that were deferred because the API server was saturated."""
    last_write_was_progress_only: bool = False
    """Whether that write changed progress and samples alone, so that its watch event needs no action."""
    node_checked_s: dict[str, float] = field(default_factory=dict)
    """Uid of a stuck pod → when its node was last read."""
    recorded_events: dict[Event, tuple[float, int]] = field(default_factory=dict)
    """Event → when it was first written (wall clock, because the event has it as a field), and how often."""
    recovery: RecoveryTracker = field(default_factory=RecoveryTracker)
    starts: StartTracker = field(default_factory=StartTracker)
    last_seen: LastSeen = field(default_factory=LastSeen)
    rounds: tuple[RoundStatus, ...] | None = None
    """The job's last rounds, newer than any status; None until the first reconcile."""
    installation: str = ""
    """Our installation, once the job's status names it."""
    foreign_event: Event | None = None
    """The event for a job that belongs to another installation; then no other field is set."""
    revision: Revision | None = None
    """The revision of the current life, as far as this process knows it; new pods get no other one."""
    corrected_version: str = ""
    """The job's resourceVersion for which a foreign status was last overwritten."""
    has_unknown_status: bool = False
    """Whether the status that this process found has fields that only a newer operator knows."""
    written_status: Mapping[str, Any] = field(default_factory=dict)
    """`status` as JSON."""

    def expect(self, name: str) -> None:
        """Record that this process writes `name` into the slot map; call this before the transaction is sent."""
        self.expected_pods.add(name)

    def creation_started(self, name: str, slot: int, monotonic_s: float) -> None:
        """Record that the request to create `name` is sent: until there is an answer, the pod may or may not exist."""
        self.expected_pods.discard(name)
        self.unanswered_creations.add(name)
        self.sent_creations[name] = slot, monotonic_s

    def creation_failed(self, name: str) -> None:
        """Record that the API server certainly did not create it, so that it may be tried again."""
        self.unanswered_creations.discard(name)
        self.sent_creations.pop(name, None)
        self.expected_pods.add(name)

    def observed(self, name: str, monotonic_s: float) -> None:
        """Record that the API server has the pod."""
        self.expected_pods.discard(name)
        self.unanswered_creations.discard(name)
        self.created_at_s[name] = monotonic_s

    def observed_absent(self, name: str, uid: str = "") -> None:
        """Record that the API server reported that the pod does not exist, or its deletion (with its uid)."""
        self.expected_pods.discard(name)
        self.created_at_s.pop(name, None)
        self.absent_pods.add(name)
        if uid:
            self.unanswered_creations.discard(name)
            self.sent_creations.pop(name, None)
            self.deleted_uids.add(uid)

    def state_of(self, name: str, monotonic_s: float) -> NameState:
        """Return the state of a name that the pod cache does not have."""
        if name in self.absent_pods:
            return NameState.NEVER_CREATED if name in self.unanswered_creations else NameState.ABSENT
        if name in self.expected_pods:
            return NameState.EXPECTED
        since_s = self.created_at_s.get(name)
        return (
            NameState.CREATED if since_s is not None and monotonic_s < since_s + WATCH_DEADLINE_S else NameState.UNKNOWN
        )

    def record_agents(self, *, running: set[str], with_agent: set[str], monotonic_s: float) -> None:
        """Record since when running pods (uids) are without an agent."""
        self.agent_seen = (self.agent_seen | with_agent) & (running | with_agent)
        alone = running - with_agent
        self.agentless_since_s = {uid: self.agentless_since_s.get(uid, monotonic_s) for uid in alone}

    def record_unreachable(self, unreachable: frozenset[str], *, anew: frozenset[str], monotonic_s: float) -> None:
        """Record which silent pods are exempt; the silence of those in `anew` counts from now."""
        self.unreachable = unreachable
        self.agentless_since_s |= dict.fromkeys(anew & self.agentless_since_s.keys(), monotonic_s)

    def record_cached(self, names: Iterable[str], monotonic_s: float) -> None:
        """Drop requests whose pod the watch has delivered, or that are so old that it never will."""
        shown, from_s = set(names), monotonic_s - REQUEST_TIMEOUT_S
        self.sent_creations = {
            n: sent for n, sent in self.sent_creations.items() if n not in shown and sent[1] > from_s
        }

    def forget(self, *, names: set[str], uids: set[str]) -> None:
        """Drop all entries for other names and pod uids than these; called when no request is in flight."""
        self.expected_pods &= names
        self.absent_pods &= names
        self.unanswered_creations &= names
        self.deleted_uids &= uids
        self.created_at_s = {n: s for n, s in self.created_at_s.items() if n in names}
