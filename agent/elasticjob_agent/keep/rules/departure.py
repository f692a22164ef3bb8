"""When a node that leaves may end its keeper: the other members then no longer need what it holds."""

from collections.abc import Collection

from elasticjob_agent.keep.rules.commit import SafePoint
from elasticjob_api.kept_steps import KeptStep, Lineage


def is_drained(alive: Collection[KeptStep], active: Lineage | None, point: SafePoint | None) -> bool:
    """Whether each step of this node that is still alive is committed in the active round, or older than one that is.

    Members commit nothing before all of them have restored. Before the round is active, the holdings of this node
    count: without its record the step that it holds parts of may not be whole.
    """
    if not alive:
        return True
    if active is None or point is None or point.lineage != active or point.committed is None:
        return False
    return max(alive) <= point.committed
