"""PURE: which numbers of nodes a round may have: between min and max, a step apart or listed, never beyond `desired`.

With 5 nodes where 2, 4 and 8 are allowed, a round has 4 of them, and the fifth is a spare.
"""

from elasticjob_api.records import SpecRecord


def target_size(spec: SpecRecord) -> int:
    """How many nodes a round should have, never fewer than `min`; 0 if there is no allowed number so small."""
    return largest_allowed(spec, max(spec.desired, spec.min))


def largest_allowed(spec: SpecRecord, count: int) -> int:
    """The largest allowed number that so many nodes can make, whatever is wanted; 0 if there is none."""
    count = min(count, spec.max)
    if count < spec.min:
        return 0
    if spec.allowed_replicas:
        return max((size for size in spec.allowed_replicas if spec.min <= size <= count), default=0)
    return count - (count - spec.min) % spec.replica_step if spec.replica_step > 0 else count
