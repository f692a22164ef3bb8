"""A simulated job with Keep: nodes with volumes, a store, leaders, and everything that can happen to them.

Each method is one thing that may happen next. It returns False, and changes nothing, if it cannot happen now. All
decisions are those of `Rules`; the environment here decides nothing that a rule decides.
"""

from collections.abc import Iterator
from typing import Any

from tests.unit.agent.keep.sim.base import lineage_of
from tests.unit.agent.keep.sim.checks import require
from tests.unit.agent.keep.sim.losses import JobLosses

_PASSES = 300


class KeepJob(JobLosses):
    """The job, from its first round to its end."""

    def __init__(self, nodes: int, *, late: int = 0, **options: Any) -> None:
        """Begin the first round with all nodes but the `late` ones, and start their workers."""
        super().__init__(nodes, **options)
        for node in self.nodes[: nodes - late]:
            self.join(node)
        self.close()
        for node in self.nodes:
            self.see(node)
            self.start(node)

    def settle(self) -> None:
        """Let everything happen that needs no fault, until nothing is left to do; then check G9."""
        for _ in range(_PASSES):
            if not any([*self._pass()]) and not self._end_grace():
                self._check_end()
                return
        require("G9", holds=False, detail="it never comes to rest")

    def _end_grace(self) -> bool:
        """Kill the nodes that leave and wait for members that never come."""
        return any(self.crash(node) for node in self.nodes if node.is_leaving)

    def _pass(self) -> Iterator[bool]:
        for node in list(self.nodes):
            node.full.clear()
            yield self.heal(node)
            yield self.show_directory(node)
            yield self.mend_keeper(node)
            yield self.expire(node)
            yield self.replace_pod(node)
            yield self.come_back(node)
        yield self.end_quiet_time()
        for node in self.nodes:
            yield self.join(node)
        yield self.lead()
        for node in self.nodes:
            yield self.see(node)
            yield self.report_ready(node)
            yield self.list_directory(node)
        yield self.close()
        for node in self.nodes:
            yield self.see(node)
            yield self.fetch(node)
            yield self.start(node)
        yield self.train()
        for node in self.nodes:
            yield self.publish(node)
            for choice in range(4):
                yield self.replicate(node, choice)
            yield self.announce(node)
        yield self.decide()
        for node in self.nodes:
            yield self.receive(node)
            yield self.depart(node)

    def _check_end(self) -> None:
        state = self.active
        require("G9", holds=state is not None and not self.store.is_quiet, detail="no round is active")
        assert state is not None
        lineage, restored = lineage_of(state), state.step_to_restore()
        require("G9", holds=self.trained[lineage] == self.highest, detail="training stopped")
        has_steps = restored is None or restored.number < self.highest
        if not has_steps and self._run_of(state):
            return
        for member in state.members:
            node = self.find(member)
            known = node.known.committed if node and node.known else None
            if any((step.lineage, step.number) == (lineage, self.highest) for step in self.truth.skipped):
                return
            if has_steps:
                is_newest = known is not None and (known.lineage, known.number) == (lineage, self.highest)
            else:
                is_newest = known == restored
            require("G9", holds=is_newest, detail=f"{member} knows {known}")
            assert known is not None
            holders = sum(1 for each in state.members if (found := self.find(each)) and found.is_here)
            least = min(1 + (1 if self.truth.was_full else self.copies), holders)
            fewest = min(
                sum(part in found.volume.get(known, ()) for each in state.members if (found := self.find(each)))
                for part in range(known.parts)
            )
            require("G9", holds=fewest >= least, detail=f"{known} has {fewest} holders")
