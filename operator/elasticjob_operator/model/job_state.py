"""A process's knowledge of one job beyond its caches: which names are its own, and which pods it has seen go.

A pod's name may be created only by the process that wrote it into the map, at most once. It is never created after the
API server reported that it does not exist. All of this is lost with the process, on purpose: a new process owns no
name, so it looks before it believes a cache. Only the job's own worker touches its ledger.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from elasticjob_api.status import JobStatus, RoundStatus
from elasticjob_operator.controller.job_parser import CachingJobParser
from elasticjob_operator.model.cluster_interface import Resource
from elasticjob_operator.model.event import Event
from elasticjob_operator.model.failed_creation import FailedCreation
from elasticjob_operator.model.last_seen import LastSeen
from elasticjob_operator.model.recovery import RecoveryTracker
from elasticjob_operator.model.revision import Revision
from elasticjob_operator.model.slot_history import SlotHistory

CACHE_DELAY_S = 60.0
"""A request without an answer takes effect by then, or never: the API server gives up on it itself."""
NOTHING: Mapping[str, Any] = {}
"""What is applied where nothing is wanted."""
UNREACHABLE_SHOWN_S = 5.0
"""What was written and has not come back through a watch for so long is not believed any more."""


class NameState(Enum):
    """What is known of a name whose pod is in no cache."""

    EXPECTED = "ours"  # written by this process, and certainly not created: it may be
    CREATED = "coming"  # it exists; the watch will show it
    UNKNOWN = "doubtful"  # written by another process, or the answer to its creation was lost: look
    ABSENT = "vanished"  # it was there and went: it needs another name
    NEVER_CREATED = "never created"  # its creation had no answer and did not happen: it needs another name


@dataclass(frozen=True, slots=True)
class Certified:
    """The job has a certificate, and its user is in the etcd of this number of wipes."""

    store: int
    renew_at_s: float


@dataclass(slots=True)
class JobState:
    """The memory of one job's worker; moments are seconds of the monotonic clock."""

    expected_pods: set[str] = field(default_factory=set)
    sent_creations: dict[str, tuple[int, float]] = field(default_factory=dict)
    """Name of a pod whose creation was sent, and that no watch has shown yet → its slot, and when it was sent."""
    created_at_s: dict[str, float] = field(default_factory=dict)
    absent_pods: set[str] = field(default_factory=set)
    unanswered_creations: set[str] = field(default_factory=set)
    """Names whose creation this process asked for, without an answer."""
    deleted_uids: set[str] = field(default_factory=set)
    """Pods that were seen to be deleted, or whose name another pod has."""
    agent_seen: set[str] = field(default_factory=set)
    """Uids of pods whose agent has joined at some time."""
    agentless_since_s: dict[str, float] = field(default_factory=dict)
    """Uid of a running pod → since when it has no live agent."""
    unreachable: frozenset[str] = frozenset()
    """Those of them that are left alone, because many agents fell silent at once."""
    written: tuple[int, int] = (0, 0)
    """Store (how many wipes there were) and revision of our last write: no plan is made from an older view."""
    applied: dict[Resource, Mapping[str, Any]] = field(default_factory=dict)
    """Service and disruption budget as last applied by this process; `NOTHING` of what was removed."""
    resync_at_s: float = 0.0
    """What was applied before is applied again from then on; 0 before the first look."""
    certified: Certified | None = None
    """The certificate that this process has made last."""
    has_user: bool = False
    """This process has made the job's user in etcd, or has tried to."""
    avoided_until_s: dict[str, float] = field(default_factory=dict)
    """Nodes that lost a pod lately: a replacement goes elsewhere if it can."""
    slot_histories: Mapping[int, SlotHistory] | None = None
    """Slot → how it went with its pods; None until the first look."""
    failed_creation_reason: str = ""
    """The last refusal of the API server, in words, while it lasts."""
    failed_creation: FailedCreation | None = None
    """The last attempt to create pods, if it failed."""
    status: JobStatus | None = None
    """As last written by this process: newer than the job's cache."""
    status_written_s: float = float("-inf")
    deferred_writes: int = 0
    """How often in a row a status was not written, because the API server had all it can do."""
    last_write_was_progress_only: bool = False
    """That write changed progress and samples alone: its echo needs no action."""
    node_checked_s: dict[str, float] = field(default_factory=dict)
    """Uid of a pod that is stuck → when its node was last looked at."""
    recorded_events: dict[Event, tuple[float, int]] = field(default_factory=dict)
    """Event → when it was first written (wall clock: it is a field of the event), and how often."""
    recovery: RecoveryTracker = field(default_factory=RecoveryTracker)
    last_seen: LastSeen = field(default_factory=LastSeen)
    history: tuple[RoundStatus, ...] | None = None
    """The job's last rounds, newer than any status; None until the first look."""
    installation: str = ""
    """Ours, once the job's status names it."""
    is_ignored: Event | None = None
    """Told of a job that belongs to another installation; nothing else is known of it."""
    revision: Revision | None = None
    """Of the present life, as far as this process knows; no pod of another one is created in it."""
    corrected_version: str = ""
    """The job's resourceVersion for which a foreign status was last overwritten."""
    has_unknown_status: bool = False
    """The status that this process found has fields that only a newer operator knows."""
    written_status: Mapping[str, Any] = field(default_factory=dict)
    """`status` as JSON."""
    parser: CachingJobParser = field(default_factory=CachingJobParser)

    def expect(self, name: str) -> None:
        """This process writes `name` into the map; say so before the transaction is sent."""
        self.expected_pods.add(name)

    def creation_started(self, name: str, slot: int, monotonic_s: float) -> None:
        """The request to create `name` is sent: until there is an answer, it may or may not exist."""
        self.expected_pods.discard(name)
        self.unanswered_creations.add(name)
        self.sent_creations[name] = slot, monotonic_s

    def creation_failed(self, name: str) -> None:
        """The API server certainly did not create it: it may be tried again."""
        self.unanswered_creations.discard(name)
        self.sent_creations.pop(name, None)
        self.expected_pods.add(name)

    def observed(self, name: str, monotonic_s: float) -> None:
        """Note that the API server has it."""
        self.expected_pods.discard(name)
        self.unanswered_creations.discard(name)
        self.created_at_s[name] = monotonic_s

    def observed_absent(self, name: str, uid: str = "") -> None:
        """The API server said that it is not there, or told its deletion (with its uid)."""
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
            NameState.CREATED
            if since_s is not None and monotonic_s < since_s + UNREACHABLE_SHOWN_S
            else NameState.UNKNOWN
        )

    def record_agents(self, *, running: set[str], with_agent: set[str], monotonic_s: float) -> None:
        """Keep the times since when running pods (uids) are without an agent."""
        self.agent_seen = (self.agent_seen | with_agent) & (running | with_agent)
        alone = running - with_agent
        self.agentless_since_s = {uid: self.agentless_since_s.get(uid, monotonic_s) for uid in alone}

    def record_unreachable(self, unreachable: frozenset[str], *, anew: frozenset[str], monotonic_s: float) -> None:
        """Keep which silent pods are left alone; the silence of those in `anew` counts from now."""
        self.unreachable = unreachable
        self.agentless_since_s |= dict.fromkeys(anew & self.agentless_since_s.keys(), monotonic_s)

    def record_shown(self, names: Iterable[str], monotonic_s: float) -> None:
        """Drop what was sent and is shown now, or was sent so long ago that it will not come any more."""
        shown, from_s = set(names), monotonic_s - CACHE_DELAY_S
        self.sent_creations = {
            n: sent for n, sent in self.sent_creations.items() if n not in shown and sent[1] > from_s
        }

    def forget(self, *, names: set[str], uids: set[str]) -> None:
        """Drop what concerns neither these names nor these pod uids; called when nothing is in flight."""
        self.expected_pods &= names
        self.absent_pods &= names
        self.unanswered_creations &= names
        self.deleted_uids &= uids
        self.created_at_s = {n: s for n, s in self.created_at_s.items() if n in names}
