"""The numbers of nodes that a round may have: between min and max, in steps or from a list, at most `desired`.

With 5 nodes where 2, 4 and 8 are allowed, a round has 4 of them, and the fifth is a spare.
"""

from elasticjob_api.records import SpecRecord


def target_size(spec: SpecRecord) -> int:
    """Return the number of nodes that a round should have, at least `min`; 0 if no allowed number is so small."""
    return largest_allowed(spec, max(spec.desired, spec.min))


def largest_allowed(spec: SpecRecord, count: int) -> int:
    """Return the largest allowed number of at most `count` nodes, whatever is desired; 0 if there is none."""
    count = min(count, spec.max)
    if count < spec.min:
        return 0
    if spec.allowed_replicas:
        return max((size for size in spec.allowed_replicas if spec.min <= size <= count), default=0)
    return count - (count - spec.min) % spec.replica_step if spec.replica_step > 0 else count
