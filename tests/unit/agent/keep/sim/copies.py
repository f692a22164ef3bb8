"""How the keepers of a simulated job copy parts, and learn what is committed."""

from dataclasses import replace

from elasticjob_agent.keep.rules.commit import SafePoint
from elasticjob_agent.keep.rules.replication import OfferAnswer, pending_copies
from elasticjob_agent.keep.rules.retention import learn, unneeded
from elasticjob_agent.rendezvous.protocol.keep.shift import replica_ranks
from elasticjob_agent.rendezvous.protocol.keep.sources import persisted_to_restore
from elasticjob_api.kept_steps import KeptStep, PersistedStep
from elasticjob_api.rendezvous_state import (
    Member,
    RendezvousState,
)
from tests.unit.agent.keep.sim.base import LeaderKeeper, lineage_of, present_history
from tests.unit.agent.keep.sim.checks import check_removed
from tests.unit.agent.keep.sim.node import SimNode
from tests.unit.agent.keep.sim.training import JobTraining

_POINTS = 4


class JobCopies(JobTraining):
    """Replicas, announcements, answers, and the shared directory."""

    def _targets(self, node: SimNode) -> list[Member]:
        assert node.view is not None
        assert node.place is not None
        members = self.worlds[node.lineage] if node.lineage else ()
        hosts = [str(member.slot) for member in members]
        shift = node.view.replica_shift()
        ranks = replica_ranks(hosts, node.place.rank, shift, self.copies, full=node.full)
        return [members[rank] for rank in ranks]

    def _pending(self, node: SimNode, step: KeptStep) -> dict[Member, frozenset[int]]:
        return pending_copies(node.own()[step], self._targets(node), node.answered.get(step, {}))

    def replicate(self, node: SimNode, choice: int = 0, *, has_room: bool = True) -> bool:
        """Offer one part of the oldest uncommitted step to a peer, and copy it if it is wanted."""
        if not node.is_here or not node.is_running or (step := node.oldest()) is None:
            return False
        pending = [(member, index) for member, parts in self._pending(node, step).items() for index in sorted(parts)]
        if not pending:
            return False
        member, index = pending[choice % len(pending)]
        target = self.find(member)
        if target is None or not target.is_here or target.view is None:
            return False
        assert node.known is not None
        answer = self.rules.answer_offer(
            target.known,
            present_history(target.view),
            node.known.lineage,
            step,
            index,
            held=target.volume,
            own=target.own(),
            has_room=has_room,
        )
        if answer is OfferAnswer.WANT:
            target.add(step, index, node.origins[step, index])
            self.drop_superseded(target)
        elif answer is OfferAnswer.FULL:
            self.truth.was_full = True
            node.full.add(self.worlds[node.known.lineage].index(member))
        elif answer is OfferAnswer.HAVE:
            node.answered.setdefault(step, {}).setdefault(member, set()).add(index)
        else:
            return False
        return self._checked()

    def announce(self, node: SimNode, leader: int = 0) -> bool:
        """Announce the holdings to one leader's keeper."""
        if not node.is_here or node.known is None:
            return False
        step = node.oldest()
        is_settled = step is not None and not self._pending(node, step)
        told = node.announcement(self.rules, is_settled=is_settled)
        table = self.leaders[leader].announcements
        if table.get(node.member) == told:
            return False
        table[node.member] = told
        for held, parts in told.held.items():
            node.told[held] = node.told.get(held, frozenset()) | parts
        return True

    def decide(self, leader: int = 0) -> bool:
        """Let one leader's keeper answer to all members, and to those that leave."""
        keeper = self.leaders[leader]
        if leader == 0 and self.active is not None:
            keeper.state = self.active
        if keeper.state is None:
            return False
        hosts = {member: str(member.slot) for member in keeper.state.members}
        lineage = lineage_of(keeper.state)
        point = self.rules.decide_safe_point(lineage, keeper.announcements, hosts, copies=self.copies)
        current = {member: each for member, each in keeper.announcements.items() if each.lineage == lineage}
        news = {member: each.persist for member, each in current.items() if each.persist is not None}
        point = replace(point, found=self.rules.found_by_all(news, keeper.state.members))
        if point.committed is None and point.floor is None:
            return False
        sent = False
        for node in self.nodes:
            is_asked = node.is_alive and (node.member in hosts or node.is_leaving)
            if is_asked and point not in node.points and self._is_news(node, point):
                node.points = [*node.points, point][-_POINTS:]
                sent = True
        return sent

    @staticmethod
    def _is_news(node: SimNode, point: SafePoint) -> bool:
        # Each announcement is answered, so an answer that was ignored before the start comes again.
        if node.known is None or not node.known.is_running:
            return node.last_point != point
        known = learn(node.known, point)
        return known != node.known or bool(unneeded(known, point, node.volume)) or node.may_remove(point)

    def receive(self, node: SimNode, choice: int = 0) -> bool:
        """Receive one of the answers on their way, in any order."""
        if not node.is_here or not node.points:
            return False
        point = node.points.pop(choice % len(node.points))
        node.last_point = point
        if node.known is not None:
            before, node.known = node.known, learn(node.known, point)
            if node.known != before and self.active is not None and node.lineage == lineage_of(self.active):
                self._note_commit(node.known.committed, self.active)
            for step in unneeded(node.known, point, node.volume):
                node.drop(step)
            if node.may_remove(point):
                self._remove_superfluous(node)
        return self._checked()

    def _note_commit(self, step: KeptStep | None, state: RendezvousState) -> None:
        # A step counts as committed when the first keeper learns it. An answer that never arrives has no effect.
        joined = [node for node in self.nodes if self.has_key(node)]
        if step is not None:
            self.truth.note_commit(step, self.line(), len(state.members), joined)

    def change_leader(self) -> bool:
        """Let another node lead. The old leader does not know it yet, and goes on with its announcements."""
        self.leaders = [LeaderKeeper(), self.leaders[0]]
        return True

    def persist(self, node: SimNode) -> bool:
        """Copy the own parts of the committed step into the shared directory; a node that is cut off may reach it."""
        if not node.is_alive or node.known is None or (step := node.known.committed) is None:
            return False
        parts = node.volume.get(step, frozenset())
        if parts <= self.marks.get(step, frozenset()):
            return False
        self.marks[step] = self.marks.get(step, frozenset()) | parts
        if len(self.marks[step]) == step.parts:
            whole = PersistedStep(self._run_name(step), step)
            self.persisted.append(whole)
            self.late.add(whole)
            node.found = tuple(self.persisted)
            if self.rules.removes_at_once:
                self._remove_superfluous(node)
        return True

    def _remove_superfluous(self, node: SimNode) -> None:
        assert node.view is not None
        line = present_history(node.view).followed_by(node.view.older_history())
        times = {each: time for time, each in enumerate(node.found)}
        step, read = node.view.step_to_restore(), persisted_to_restore(node.view)
        in_use = [] if step is None else [read or PersistedStep(node.view.run, step)]
        node.removed_for = node.newest_found()
        removed = self.rules.superfluous(times, line, node.view.run, keep=self.persist_keep, in_use=in_use)
        if not {*node.found} - {*removed} <= {*self.persisted}:
            return  # a person has removed a step by hand
        if not self.store.is_quiet:  # what an older state descends from, until agents have written back a newer one
            check_removed(self.line(), self.persisted, removed, self.persist_keep)
        self.persisted = [each for each in self.persisted if each not in removed]

    def _run_name(self, step: KeptStep) -> str:
        return next(state.run for state, _ in self.past if state.round == step.lineage.round)
