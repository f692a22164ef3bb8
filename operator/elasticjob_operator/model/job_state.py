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
from elasticjob_operator.controller.job_parser import Acceptor
from elasticjob_operator.model.cluster_interface import Resource
from elasticjob_operator.model.event import Event
from elasticjob_operator.model.failed_creation import FailedCreation
from elasticjob_operator.model.last_seen import Memory
from elasticjob_operator.model.recovery import Pace
from elasticjob_operator.model.revision import Revision
from elasticjob_operator.model.slot_history import Course

LANDED_WITHIN_S = 60.0
"""A request without an answer takes effect by then, or never: the API server gives up on it itself."""
NOTHING: Mapping[str, Any] = {}
"""What is applied where nothing is wanted."""
SHOWN_WITHIN_S = 5.0
"""What was written and has not come back through a watch for so long is not believed any more."""


class NameState(Enum):
    """What is known of a name whose pod is in no cache."""

    OURS = "ours"  # written by this process, and certainly not created: it may be
    COMING = "coming"  # it exists; the watch will show it
    DOUBTFUL = "doubtful"  # written by another process, or the answer to its creation was lost: look
    VANISHED = "vanished"  # it was there and went: it needs another name
    NEVER_CREATED = "never created"  # its creation had no answer and did not happen: it needs another name


@dataclass(frozen=True, slots=True)
class Certified:
    """The job has a certificate, and its user is in the etcd of this number of wipes."""

    store: int
    renew_at_s: float


@dataclass(slots=True)
class Ledger:
    """The memory of one job's worker; moments are seconds of the monotonic clock."""

    ours: set[str] = field(default_factory=set)
    sent: dict[str, tuple[int, float]] = field(default_factory=dict)
    """Name of a pod whose creation was sent, and that no watch has shown yet → its slot, and when it was sent."""
    coming_since_s: dict[str, float] = field(default_factory=dict)
    vanished: set[str] = field(default_factory=set)
    unanswered: set[str] = field(default_factory=set)
    """Names whose creation this process asked for, without an answer."""
    gone_uids: set[str] = field(default_factory=set)
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
    upkeep_from_s: float = 0.0
    """What was applied before is applied again from then on; 0 before the first look."""
    certified: Certified | None = None
    """The certificate that this process has made last."""
    has_user: bool = False
    """This process has made the job's user in etcd, or has tried to."""
    avoided_until_s: dict[str, float] = field(default_factory=dict)
    """Nodes that lost a pod lately: a replacement goes elsewhere if it can."""
    courses: Mapping[int, Course] | None = None
    """Slot → how it went with its pods; None until the first look."""
    trouble: str = ""
    """The last refusal of the API server, in words, while it lasts."""
    failed_creation: FailedCreation | None = None
    """The last attempt to create pods, if it failed."""
    status: JobStatus | None = None
    """As last written by this process: newer than the job's cache."""
    status_written_s: float = float("-inf")
    unheard: int = 0
    """How often in a row a status was not written, because the API server had all it can do."""
    said_softly: bool = False
    """That write changed progress and samples alone: its echo needs no action."""
    node_looked_s: dict[str, float] = field(default_factory=dict)
    """Uid of a pod that is stuck → when its node was last looked at."""
    told: dict[Event, tuple[float, int]] = field(default_factory=dict)
    """Event → when it was first written (wall clock: it is a field of the event), and how often."""
    pace: Pace = field(default_factory=Pace)
    memory: Memory = field(default_factory=Memory)
    history: tuple[RoundStatus, ...] | None = None
    """The job's last rounds, newer than any status; None until the first look."""
    installation: str = ""
    """Ours, once the job's status names it."""
    left_alone: Event | None = None
    """Told of a job that belongs to another installation; nothing else is known of it."""
    revision: Revision | None = None
    """Of the present life, as far as this process knows; no pod of another one is created in it."""
    corrected_version: str = ""
    """The job's resourceVersion for which a foreign status was last overwritten."""
    has_unknown_status: bool = False
    """The status that this process found has fields that only a newer operator knows."""
    status_as_written: Mapping[str, Any] = field(default_factory=dict)
    """`status` as JSON."""
    acceptor: Acceptor = field(default_factory=Acceptor)

    def propose(self, name: str) -> None:
        """This process writes `name` into the map; say so before the transaction is sent."""
        self.ours.add(name)

    def sending(self, name: str, slot: int, monotonic_s: float) -> None:
        """The request to create `name` is sent: until there is an answer, it may or may not exist."""
        self.ours.discard(name)
        self.unanswered.add(name)
        self.sent[name] = slot, monotonic_s

    def refused(self, name: str) -> None:
        """The API server certainly did not create it: it may be tried again."""
        self.unanswered.discard(name)
        self.sent.pop(name, None)
        self.ours.add(name)

    def exists(self, name: str, monotonic_s: float) -> None:
        """Note that the API server has it."""
        self.ours.discard(name)
        self.unanswered.discard(name)
        self.coming_since_s[name] = monotonic_s

    def missing(self, name: str, uid: str = "") -> None:
        """The API server said that it is not there, or told its deletion (with its uid)."""
        self.ours.discard(name)
        self.coming_since_s.pop(name, None)
        self.vanished.add(name)
        if uid:
            self.unanswered.discard(name)
            self.sent.pop(name, None)
            self.gone_uids.add(uid)

    def state_of(self, name: str, monotonic_s: float) -> NameState:
        """Return the state of a name that the pod cache does not have."""
        if name in self.vanished:
            return NameState.NEVER_CREATED if name in self.unanswered else NameState.VANISHED
        if name in self.ours:
            return NameState.OURS
        since_s = self.coming_since_s.get(name)
        return (
            NameState.COMING if since_s is not None and monotonic_s < since_s + SHOWN_WITHIN_S else NameState.DOUBTFUL
        )

    def note_agents(self, *, running: set[str], with_agent: set[str], monotonic_s: float) -> None:
        """Keep the times since when running pods (uids) are without an agent."""
        self.agent_seen = (self.agent_seen | with_agent) & (running | with_agent)
        alone = running - with_agent
        self.agentless_since_s = {uid: self.agentless_since_s.get(uid, monotonic_s) for uid in alone}

    def note_unreachable(self, unreachable: frozenset[str], *, anew: frozenset[str], monotonic_s: float) -> None:
        """Keep which silent pods are left alone; the silence of those in `anew` counts from now."""
        self.unreachable = unreachable
        self.agentless_since_s |= dict.fromkeys(anew & self.agentless_since_s.keys(), monotonic_s)

    def note_shown(self, names: Iterable[str], monotonic_s: float) -> None:
        """Drop what was sent and is shown now, or was sent so long ago that it will not come any more."""
        shown, from_s = set(names), monotonic_s - LANDED_WITHIN_S
        self.sent = {n: sent for n, sent in self.sent.items() if n not in shown and sent[1] > from_s}

    def forget(self, *, names: set[str], uids: set[str]) -> None:
        """Drop what concerns neither these names nor these pod uids; called when nothing is in flight."""
        self.ours &= names
        self.vanished &= names
        self.unanswered &= names
        self.gone_uids &= uids
        self.coming_since_s = {n: s for n, s in self.coming_since_s.items() if n in names}
