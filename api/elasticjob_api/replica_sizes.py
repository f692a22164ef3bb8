"""The numbers of nodes that a round of a job may have: from min to max, in steps or from a list.

With 5 nodes where 2, 4 and 8 are allowed, a round has 4 of them, and the fifth is a spare.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaSizes:
    """The allowed numbers of nodes of one job."""

    min: int
    max: int
    step: int = 0
    """`replicaStep`: min and a multiple of this more; 0: any number."""
    allowed: tuple[int, ...] = ()
    """`allowedReplicas`: one of these; empty: any number."""

    def largest(self, count: int) -> int:
        """Return the largest allowed number of at most `count` nodes; 0 if there is none."""
        count = min(count, self.max)
        if count < self.min:
            return 0
        if self.allowed:
            return max((size for size in self.allowed if self.min <= size <= count), default=0)
        return count - (count - self.min) % self.step if self.step > 0 else count

    def target(self, requested: int) -> int:
        """Return the number of nodes that the job should have: the largest allowed number of at most `requested`.

        An autoscaler may request any number, and the next larger size may exceed the quota. Below the smallest allowed
        number that one applies: the job cannot run with less. If no number is allowed, it is the request within limits.
        """
        requested = min(max(requested, self.min), self.max)
        if not self.allowed:
            return self.largest(requested)
        smallest = min((size for size in self.allowed if self.min <= size <= self.max), default=requested)
        return max(self.largest(requested), smallest)
