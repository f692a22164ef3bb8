"""The sums of what a volume holds. No I/O.

They are read at each turn of a keeper, and change with a part. A step may have thousands of parts, so they are kept.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from elasticjob_agent.keep.volume.manifest import Manifest
from elasticjob_agent.keep.volume.paths import KeptPart
from elasticjob_api.kept_steps import Holdings, KeptStep


@dataclass(frozen=True, slots=True)
class HeldSums:
    """The sums of the held parts."""

    holdings: Holdings
    size: int
    """The bytes of all of them."""

    @classmethod
    def of(cls, held: Mapping[KeptPart, Manifest]) -> "HeldSums":
        """Return the sums of these parts."""
        found: defaultdict[KeptStep, set[int]] = defaultdict(set)
        for part in held:
            found[part.step].add(part.index)
        holdings = {step: frozenset(indices) for step, indices in found.items()}
        return cls(holdings, sum(manifest.size for manifest in held.values()))
