"""Records that the operator remembers after they are deleted: reports, samples, the pods of members, lost nodes.

They let the status show earlier observations. They are lost with the process; then the status that it has written must
suffice. `policy.status.last_seen` updates them.
"""

from dataclasses import dataclass, field

from elasticjob_api.records import NodeReport, NodeSamples, Tombstone
from elasticjob_api.rendezvous_state import Member, Membership


@dataclass(frozen=True, slots=True)
class LostNode:
    """A lost member, with its group rank and its round."""

    member: Member
    rank: int
    round: int
    tombstone: Tombstone | None


@dataclass(frozen=True, slots=True)
class PodLocation:
    """The location of a present or former member."""

    pod: str
    node_name: str = ""
    exit_code: int | None = None
    """Exit code of the pod's trainer container, if it has ended."""


@dataclass(slots=True)
class LastSeen:
    """The last observations about one job; their size is that of its last two rounds."""

    reports: dict[Member, NodeReport] = field(default_factory=dict)
    samples: dict[Member, NodeSamples] = field(default_factory=dict)
    without_directory: frozenset[Member] = frozenset()
    """The members whose samples do not count for kept steps: spec.keep.persistTo was removed after they had ended."""
    locations: dict[Member, PodLocation] = field(default_factory=dict)
    lost_nodes: tuple[LostNode, ...] = ()
    """The lost nodes of the last round that lost any."""
    membership: Membership | None = None
    first_samples: NodeSamples | None = None
    """The first samples of the last round with progress, from which the speed is measured."""
