"""When this node first held a step, and when and how soon after that it was known to be committed; no I/O."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from elasticjob_api.kept_steps import KeptStep


@dataclass(slots=True)
class CommitMeter:
    """The times of the newest committed step; `clock` is in seconds, `wall_ns` for display."""

    clock: Callable[[], float]
    wall_ns: Callable[[], int]
    committed_ns: int = 0
    """When this node got to know that the step is committed; 0: none is."""
    copy_s: float | None = None
    """From the first part of it here until then; None if it was here before this agent."""
    _held_s: dict[KeptStep, float | None] | None = None
    """When each step was first held here; None before the first report of the keeper."""
    _committed: KeptStep | None = field(default=None)

    def note_holdings(self, holdings: Mapping[KeptStep, Any]) -> None:
        """Take in what this node holds now."""
        known = self._held_s
        now_s = None if known is None else self.clock()  # what a keeper finds at its start may be old
        self._held_s = {step: now_s if known is None else known.get(step, now_s) for step in holdings}

    def note_committed(self, step: KeptStep | None) -> None:
        """Take in which step is known to be committed."""
        if step is None or step == self._committed:
            return
        self._committed, self.committed_ns = step, self.wall_ns()
        held_s = (self._held_s or {}).get(step)
        self.copy_s = None if held_s is None else max(0.0, self.clock() - held_s)
