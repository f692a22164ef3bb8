"""How the nodes of a simulated job restore, train and publish."""

from dataclasses import replace

from elasticjob_agent.keep.rules.retention import may_skip
from elasticjob_api.kept_steps import KeptStep, Lineage, PersistedStep
from elasticjob_api.rendezvous_state import (
    Cause,
)
from tests.unit.agent.keep.sim.base import lineage_of
from tests.unit.agent.keep.sim.checks import require
from tests.unit.agent.keep.sim.node import SimNode, Workers
from tests.unit.agent.keep.sim.rounds import JobRounds


class JobTraining(JobRounds):
    """Fetching, starting, training and publishing."""

    def _missing(self, node: SimNode) -> list[int]:
        assert node.view is not None
        step = node.known.restored if node.known else None
        return sorted(set(range(step.parts)) - node.volume.get(step, frozenset())) if step else []

    def fetch(self, node: SimNode, choice: int = 0, *, is_spurious: bool = False) -> bool:
        """Fetch one part of the restored step; if no holder is left, the round has failed."""
        if node.workers is not Workers.RESTORING or not node.is_here or not (missing := self._missing(node)):
            return False
        step = node.known.restored if node.known else None
        assert step is not None
        part = missing[choice % len(missing)]
        holders = [other for other in self.nodes if other.has_parts and part in other.volume.get(step, ())]
        if holders and not is_spurious:
            holder = holders[choice % len(holders)]
            node.add(step, part, holder.origins[step, part])
            return self._checked()
        return self._fail_to_fetch(node, step, is_spurious=is_spurious)

    def _fail_to_fetch(self, node: SimNode, step: KeptStep, *, is_spurious: bool) -> bool:
        if not self._may_write(node) or not self._is_current(node):
            return False
        require("G8", holds=is_spurious or self.truth.losses > 0, detail=f"{step} at {node.member}")
        if is_spurious:
            if self.truth.committed is not None and self.truth.committed >= step:
                self.truth.committed = None
            self.truth.losses, self.truth.was_whole = max(1, self.truth.losses), False
        if not self.rules.fails_the_round:
            return self._take_an_older_step(node, step)
        self.open(Cause.RESTORE_FAILED, struck=step)
        node.stop_workers()
        node.view = self.store.state
        return self._checked()

    def _take_an_older_step(self, node: SimNode, step: KeptStep) -> bool:
        assert node.known is not None
        older = [each for each in node.volume if each < step and len(node.volume[each]) == each.parts]
        node.known = replace(node.known, restored=max(older, default=None))
        return self._checked()

    def start(self, node: SimNode) -> bool:
        """Start the workers: all parts of the restored step are here."""
        if node.workers is not Workers.RESTORING or self._missing(node):
            return False
        if node.view is not None and (run := self._run_of(node.view)) and not self._can_read(node, run):
            return False
        assert node.known is not None
        assert node.lineage is not None
        node.workers, node.known = Workers.RUNNING, replace(node.known, is_running=True)
        restored = self.truth.restored.setdefault(node.lineage, set())
        restored.add(node.known.restored)
        require("G3", holds=len(restored) == 1, detail=restored)
        return self._checked()

    def _can_read(self, node: SimNode, run: str) -> bool:
        """Return whether the step of the round is in the shared directory; a step that is gone fails the round."""
        assert node.view is not None
        step = node.view.step_to_restore()
        assert step is not None
        if not node.can_list:
            return False
        if PersistedStep(run, step) in self.persisted:
            return True
        if self._may_write(node) and self._is_current(node):
            node.listed = node.found = tuple(self.persisted)
            self.open(Cause.RESTORE_FAILED, struck=step)
            node.stop_workers()
            node.view = self.store.state
        return False

    def train(self) -> bool:
        """Train all workers of the round for one step."""
        state = self.active
        if state is None or self.trained[lineage_of(state)] >= self.highest:
            return False
        members = [self.find(member) for member in state.members]
        if not all(node and node.is_here and node.is_running and node.lineage == lineage_of(state) for node in members):
            return False
        self.trained[lineage_of(state)] += 1
        return True

    def publish(self, node: SimNode, *, has_room: bool = True) -> bool:
        """Publish the next step that the workers have trained; the keeper takes it."""
        if not node.is_alive or not node.is_running or node.known is None or node.lineage is None:
            return False
        # A node that is cut off may train on alone.
        limit = self.highest if not node.is_reachable else self.trained[node.lineage]
        if node.published >= limit:
            return False
        node.published += 1
        if (index := self._index(node, node.lineage)) is not None:
            self._take(node, node.published, index, node.lineage, has_room=has_room)
        return self._checked()

    def _take(self, node: SimNode, number: int, index: int, origin: Lineage, *, has_room: bool = True) -> None:
        assert node.known is not None
        parts = len(self.worlds[node.known.lineage]) if self.layout == "sharded" else 1
        step = KeptStep(node.known.lineage, number, parts)
        node.indices[parts] = node.indices.get(parts, frozenset()) | {index}
        if self.rules.is_skipped(node.known, node.own(), step):
            return
        if index in node.volume.get(step, frozenset()):
            return  # a peer was faster
        node.add(step, index, origin)
        if not self.rules.skips_before_superseding:
            self.drop_superseded(node)
        if not has_room and may_skip(node.known, own := node.own(), step):
            node.drop(step, own[step])
            self.truth.skipped.add(step)
        self.drop_superseded(node)

    def drop_superseded(self, node: SimNode) -> None:
        """Drop what lies between the oldest and the newest own step."""
        own = node.own()
        if node.known is not None:
            for each in self.rules.superseded(node.known, own, node.counted()):
                node.drop(each, own[each])

    def publish_stray(self, node: SimNode, index: int) -> bool:
        """Publish from a process of an older round, which was not reaped, into the directory of that round."""
        if not node.is_running or node.known is None or self.rules.has_directory_per_round:
            return False
        self._take(node, node.published + 1, index, Lineage(0, "stray"))
        return self._checked()
