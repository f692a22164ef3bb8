"""PURE: how long a closer gathers changes before it looks at everything again, and what ends that sooner.

A change is rarely alone, so a look waits for others: 5 ms, or twice what the last look took, 50 ms at most. While the
first round has too few nodes no newcomer but the last one changes the answer, and a thousand of them must not cost a
look every 50 ms on a machine that they all share. Then it is ten times the last look, a quarter of a second at most,
and over at once when so many keys are there as were missing. Nobody notices: what else decides (spec, expected, world,
members) and timers wait as long as ever. Links prove nothing before the first round, for none are made, and a node
that dies or leaves then is only one more that is missing.

The count errs to the early side: keys of nodes that do not count (replaced, leaving) and proof against nodes make it
look too soon. It is late only if another key than a node's goes, by no more than the rest of the quarter second.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from elasticjob_agent.rendezvous import membership, sizes
from elasticjob_agent.rendezvous.membership import Seen
from elasticjob_agent.rendezvous.view import View
from elasticjob_api.keys import Keys
from elasticjob_api.world import State
from elasticjob_etcd.protocol import KeyValue

LEAST_S = 0.005
MOST_S = 0.05
MOST_ARRIVING_S = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class Gathering:
    """What follows on one look."""

    usual_s: float = LEAST_S
    """So long in any case, unless the last missing node comes."""
    longest_s: float = LEAST_S
    """So long while nothing comes but nodes."""
    full: int | None = None
    """With so many keys nobody is missing any more; None: nobody is waited for."""
    decided_by: Mapping[str, int] = field(default_factory=dict)
    """The revisions of what else decides: 0 for keys that did not exist."""

    def is_complete(self, items: Mapping[str, KeyValue]) -> bool:
        """All that were missing may be there."""
        return self.full is not None and len(items) >= self.full

    def is_outdated(self, items: Mapping[str, KeyValue]) -> bool:
        """More has changed than nodes."""
        return any(_revision(items.get(key)) != seen for key, seen in self.decided_by.items())


def gathering(keys: Keys, view: View, seen: Seen, *, planned_s: float, items: int) -> Gathering:
    """What follows on a look that took `planned_s` and saw so many items."""
    missing = nodes_missing(view, seen)
    return Gathering(
        usual_s=coalesce_s(planned_s),
        longest_s=coalesce_s(planned_s, missing=missing),
        full=items + missing if missing else None,
        decided_by={
            keys.spec: view.spec_revision,
            keys.expected: view.expected_revision,
            keys.world: view.world_revision,
            keys.members: view.membership_revision,
        },
    )


def coalesce_s(planned_s: float, *, missing: int = 0) -> float:
    """How long changes are gathered before the next look; `missing` nodes more make the first round."""
    usual_s = min(max(LEAST_S, 2 * planned_s), MOST_S)
    return max(usual_s, min(10 * planned_s, MOST_ARRIVING_S)) if missing else usual_s


def nodes_missing(view: View, seen: Seen) -> int:
    """How many more nodes it takes, at the least, until the first round may close or a wait begins; 0 after it.

    With fewer than `min` there is no round. With `min` the last call begins, and it must not begin late. From then on
    those are missing whom the operator expects. Where a quiet second after the newest node ends the wait, each one
    counts from when it was seen, so all are looked at as usual.
    """
    spec, world = view.spec, view.world
    if spec is None or world is None or world.state is not State.FORMING or view.membership is not None:
        return 0
    if seen.enough_since_s is None:
        return max(0, spec.min - len(view.nodes))
    if spec.operator is None:
        return 0
    wanted = min(sizes.wanted(spec), len(spec.slots))
    return max(0, min(wanted - len(view.nodes), len(membership.missing_expected(view))))


def _revision(kv: KeyValue | None) -> int:
    return 0 if kv is None else kv.mod_revision
