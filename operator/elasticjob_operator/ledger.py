"""What this process knows of one job beyond its caches: which names are its own, and what it has seen to be gone.

A pod's name may be created only by the process that wrote it into the map, at most once, and never after the
API server said that it is not there. All of this is lost with the process, on purpose: a new process owns no
name, so it looks before it believes a cache. Only the job's own worker touches its ledger.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from elasticjob_api.status import JobStatus, RoundStatus
from elasticjob_operator.acceptance import Acceptor
from elasticjob_operator.cluster.protocol import Resource
from elasticjob_operator.course import Course
from elasticjob_operator.event import Event
from elasticjob_operator.memory import Memory
from elasticjob_operator.pace import Pace

SHOWN_WITHIN_S = 5.0
"""What was written and has not come back through a watch for so long is not believed any more."""


class NameState(Enum):
    """What is known of a name whose pod is in no cache."""

    OURS = "ours"  # written by this process, and certainly not created: it may be
    COMING = "coming"  # it exists; the watch will show it
    DOUBTFUL = "doubtful"  # written by another process, or the answer to its creation was lost: look
    VANISHED = "vanished"  # it is not there, or was there and went: it needs another name


@dataclass(frozen=True, slots=True)
class Certified:
    """The job has a certificate, and its user is in the etcd of this number of wipes."""

    store: int
    renew_at_s: float


@dataclass(slots=True)
class Ledger:
    """The memory of one job's worker; moments are seconds of the wall clock."""

    ours: set[str] = field(default_factory=set)
    coming_since_s: dict[str, float] = field(default_factory=dict)
    vanished: set[str] = field(default_factory=set)
    gone_uids: set[str] = field(default_factory=set)
    """Pods that were seen to be deleted, or whose name another pod has."""
    agent_seen: set[str] = field(default_factory=set)
    """Uids of pods whose agent has joined at some time."""
    agentless_since_s: dict[str, float] = field(default_factory=dict)
    """Uid of a running pod → since when it has no live agent."""
    written: tuple[int, int] = (0, 0)
    """Store (how many wipes there were) and revision of our last write: no plan is made from an older view."""
    applied: dict[Resource, Mapping[str, Any]] = field(default_factory=dict)
    """Service and disruption budget as last applied by this process."""
    upkeep_from_s: float = 0.0
    """What was applied before this process began is applied again from then on; 0 before the first look."""
    certified: Certified | None = None
    """The certificate that this process has made last."""
    avoided_until_s: dict[str, float] = field(default_factory=dict)
    """Nodes that lost a pod lately: a replacement goes elsewhere if it can."""
    courses: Mapping[int, Course] | None = None
    """Slot → how it went with its pods; None until the first look."""
    trouble: str = ""
    """The last refusal of the API server, in words, while it lasts."""
    status: JobStatus | None = None
    """As last written by this process: newer than what the job's cache says."""
    status_written_s: float = float("-inf")
    unheard: int = 0
    """How often in a row a status was not written, because the API server had all it can do."""
    said_softly: bool = False
    """That write told of progress and samples alone: whoever sees it come back has nothing to do."""
    node_looked_s: dict[str, float] = field(default_factory=dict)
    """Uid of a pod that is stuck → when its node was last looked at."""
    told: dict[Event, tuple[float, int]] = field(default_factory=dict)
    """Event → when it was first told, and how often."""
    pace: Pace = field(default_factory=Pace)
    memory: Memory = field(default_factory=Memory)
    history: tuple[RoundStatus, ...] | None = None
    """The job's last rounds, newer than any status; None until the first look."""
    corrected_version: str = ""
    """The job's resourceVersion for which a foreign status was last overwritten."""
    status_as_written: Mapping[str, Any] = field(default_factory=dict)
    """`status` as JSON."""
    acceptor: Acceptor = field(default_factory=Acceptor)

    def propose(self, name: str) -> None:
        """This process writes `name` into the map; say so before the transaction is sent."""
        self.ours.add(name)

    def sending(self, name: str) -> None:
        """The request to create `name` is sent: until there is an answer, it may or may not exist."""
        self.ours.discard(name)

    def refused(self, name: str) -> None:
        """The API server certainly did not create it: it may be tried again."""
        self.ours.add(name)

    def exists(self, name: str, now_s: float) -> None:
        """The API server said that it is there."""
        self.ours.discard(name)
        self.coming_since_s[name] = now_s

    def missing(self, name: str, uid: str = "") -> None:
        """The API server said that it is not there, or told its deletion (with its uid)."""
        self.ours.discard(name)
        self.coming_since_s.pop(name, None)
        self.vanished.add(name)
        if uid:
            self.gone_uids.add(uid)

    def state_of(self, name: str, now_s: float) -> NameState:
        """What is known of a name that the pod cache does not have."""
        if name in self.vanished:
            return NameState.VANISHED
        if name in self.ours:
            return NameState.OURS
        since_s = self.coming_since_s.get(name)
        return NameState.COMING if since_s is not None and now_s < since_s + SHOWN_WITHIN_S else NameState.DOUBTFUL

    def note_agents(self, *, running: set[str], with_agent: set[str], now_s: float) -> None:
        """Keep the times since when running pods (uids) are without an agent."""
        self.agent_seen = (self.agent_seen | with_agent) & (running | with_agent)
        alone = running - with_agent
        self.agentless_since_s = {uid: self.agentless_since_s.get(uid, now_s) for uid in alone}

    def forget(self, *, names: set[str], uids: set[str]) -> None:
        """Drop what concerns neither these names nor these pod uids; called when nothing is in flight."""
        self.ours &= names
        self.vanished &= names
        self.gone_uids &= uids
        self.coming_since_s = {n: s for n, s in self.coming_since_s.items() if n in names}
