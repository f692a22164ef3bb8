"""How a simulated job opens and closes rounds, and how its nodes see them."""

from collections.abc import Collection
from dataclasses import replace

from elasticjob_agent.keep.rules.persisting import eligible, newest_of_lineages
from elasticjob_agent.keep.rules.replication import RoundPlace
from elasticjob_agent.rendezvous.protocol.keep.shift import Place, choose_shift
from elasticjob_agent.rendezvous.protocol.keep.sources import assign_sources, parse_sources, persisted_sources
from elasticjob_agent.rendezvous.protocol.last_known_state import is_newer
from elasticjob_api.holdings import HoldingsRecord, decode_holdings, encode_holdings
from elasticjob_api.kept_steps import History, KeptStep
from elasticjob_api.rendezvous_state import (
    Cause,
    RendezvousState,
    RoundPhase,
    decode_state,
    encode_state,
    next_round,
)
from tests.unit.agent.keep.sim.base import RUN, JobBase, lineage_of, present_history
from tests.unit.agent.keep.sim.checks import Line, check_newest, check_offer, require
from tests.unit.agent.keep.sim.node import SimNode, Workers


class JobRounds(JobBase):
    """Opening, closing, seeing and being ready."""

    def _write(self, state: RendezvousState, line: Line) -> None:
        # Each state is read from its bytes, as every agent does.
        self.store.state = decode_state(encode_state(state))
        self.lines[state.nonce] = line
        if state.phase is RoundPhase.ACTIVE:
            self.store.previous = frozenset(state.members)
        self.late.clear()
        self.past.append((self.store.state, self.store.previous))

    def open(self, cause: Cause, struck: KeptStep | None = None) -> bool:
        """Open the next round; `struck` could not be restored."""
        state = self.active
        if state is None or self.store.is_quiet:
            return False
        opened, line = next_round(state, self._draw(), cause), self.line()
        if struck is not None:
            history = self.rules.strike_step(opened.kept_history(), struck)
            older = self.rules.strike_step(opened.older_history(), struck)
            opened = replace(opened, history=str(history), older=str(older))
            line = replace(line, struck=line.struck | {struck})
        self._write(opened, line)
        return True

    def lead(self) -> bool:
        """Open a round if a member is lost, a node has joined, or fewer nodes are wanted."""
        state = self.active
        if state is None or self.store.is_quiet:
            return False
        able = [member for member, key in self.store.keys.items() if not key.is_leaving]
        if set(state.members) - self.store.keys.keys():
            return self.open(Cause.NODE_LOST)
        if any(self.store.keys[member].is_leaving for member in state.members):
            return self.open(Cause.NODE_LEFT)
        if len(state.members) > self.wanted:
            return self.open(Cause.SCALED_DOWN)
        has_room = len(state.members) < self.wanted
        return has_room and bool(set(able) - set(state.members)) and self.open(Cause.NODE_JOINED)

    def close(self) -> bool:
        """Close the forming round, if all workers of older rounds have stopped."""
        state, keys = self.store.state, self.store.keys
        if (
            self.store.is_quiet
            or state is None
            or state.phase is not RoundPhase.FORMING
            or not self._is_past_barrier(state)
        ):
            return False
        able = [member for member, key in keys.items() if not key.is_leaving]
        chosen = sorted(able, key=lambda member: (member not in self.store.previous, member))[: self.wanted]
        if not chosen:
            return False
        members = tuple(sorted(chosen))
        records = {member: key.record for member, key in keys.items()}
        counted = self.rules.count_records(records, self.store.previous)
        hosts = {member: str(member.slot) for member in keys}
        decision = self.rules.choose_restore(
            state.kept_history(), counted, hosts, copies=self.copies, older=state.older_history()
        )
        here = {node.member: node for node in self.nodes if node.is_here and self.has_key(node)}
        check_offer(self.truth, self.line(), decision, counted, here)
        held = {member: record.steps for member, record in records.items()}
        sources = persisted_sources(decision.run) if decision.run else ""
        if decision.step is not None and not decision.run:
            sources = assign_sources(decision.step, members, held)
        shift = choose_shift([Place(str(m.slot)) for m in members], self.copies, state.replica_shift())
        active = replace(
            state,
            phase=RoundPhase.ACTIVE,
            nonce=self._draw(),
            members=members,
            history=str(decision.history),
            older=str(decision.older),
            restore=str(decision.step or ""),
            sources=sources,
            shift=str(shift or ""),
        )
        if self.rules.awaited_lists(active, records, {member: key.ready for member, key in keys.items()}):
            return False
        nodes = [node for node in self.nodes if node.is_alive and self.has_key(node)]
        check_newest(self.line(), state.kept_history(), decision, counted, self._persisted_for(state, nodes))
        known = {each for node in nodes for each in node.listed or ()}
        self.unknown |= set(self.persisted) - known
        self._check_newest_common(state, decision.step)
        self._write(active, self.line().restored(decision.step, [each.step for each in self.persisted]))
        self.trained[lineage_of(active)] = decision.step.number if decision.step else 0
        self.worlds[lineage_of(active)] = members
        return self._checked()

    def _persisted_for(self, state: RendezvousState, nodes: Collection[SimNode]) -> set[KeptStep]:
        """Return the steps of the shared directory that a round with these nodes must not miss.

        A node that was in the last round may have ended it before the news of a step arrived. No node reports such a
        step then, and a later round does not know that the training descends from it.
        """
        last = next((entry.lineage for entry in state.kept_history().entries), None)
        excused = [node.listed for node in nodes if node.listed is not None and node.lineage == last]
        found = set(self.persisted) - self.unknown
        # A step may become whole after the last node has listed the directory, and its writers may be lost then.
        found -= self.late - {each for node in nodes for each in node.reported}
        return {each.step for each in found if all(each in listed for listed in excused)}

    def list_directory(self, node: SimNode) -> bool:
        """List the shared directory, and report the list if the record of the node in the store lacks one.

        While a round forms, a newer list is reported, too. So no other node is lost between list and report.
        """
        is_news = node.is_alive and node.has_keeper and node.can_list and node.listed != tuple(self.persisted)
        if is_news:
            node.listed = node.found = tuple(self.persisted)
        key = self.store.keys.get(node.member)
        if key is None or node.listed is None or not self._may_write(node):
            return is_news
        reports_news = self.rules.reports_lists_after_ready and self._is_ready(node)
        lacks = not key.record.has_listed or (reports_news and node.reported != node.listed)
        if lacks:
            key.record = self._record(node)
        return is_news or lacks

    def _is_ready(self, node: SimNode) -> bool:
        """Return whether the node knows that a round forms, and is ready for it."""
        state = node.view
        is_forming = state is not None and state.phase is RoundPhase.FORMING
        return is_forming and state is not None and self.store.keys[node.member].ready == state.round

    def _is_past_barrier(self, state: RendezvousState) -> bool:
        for member, key in self.store.keys.items():
            was = member in self.store.previous
            if (was or not key.is_leaving) and key.ready != state.round and (key.ready or was):
                return False
        return True

    def _check_newest_common(self, state: RendezvousState, offered: KeptStep | None) -> None:
        """Check G4: all members of the last round are here, and their newest own step is the same one."""
        last = next((entry.lineage for entry in state.kept_history().entries), None)
        if last is None or last.round != state.round - 1 or self.truth.losses:
            return
        if any(step.lineage == last for step in self.truth.skipped):
            return
        newest: set[int | None] = set()
        for member in self.worlds[last]:
            node = self.find(member)
            if node is None or not node.is_here or not self.has_key(node):
                return
            if (index := self._index(node, last)) is not None:
                own = [step.number for step in node.volume if step.lineage == last and index in node.volume[step]]
                newest.add(max(own, default=None))
        if len(newest) == 1 and (number := newest.pop()) is not None:
            require(
                "G4", holds=offered is not None and (offered.lineage, offered.number) == (last, number), detail=offered
            )

    def see(self, node: SimNode) -> bool:
        """Receive the newest state."""
        state = self.store.state
        if not self._may_write(node) or state is None or node.view == state or is_newer(node.view, state):
            return False
        node.view, node.previous = state, self.store.previous
        if state.phase is RoundPhase.ACTIVE:
            self._begin(node, state)
        else:
            node.stop_workers()
            if self.rules.has_missed_rounds(state.kept_history(), node.lineage):
                node.listed = None
        return self._checked()

    def _begin(self, node: SimNode, state: RendezvousState) -> None:
        lineage = lineage_of(state)
        node.volume = dict(self.rules.select_alive(node.volume, state.kept_history(), lineage))
        if node.member not in state.members:
            node.stop_workers()
            return
        if node.lineage == lineage and node.workers is not Workers.NONE:
            return
        before = node.last_point.committed if node.last_point and not self.rules.begins_without_commit else None
        restored = state.step_to_restore()
        in_memory = None if self._run_of(state) else restored
        node.stop_workers()
        node.workers, node.lineage = Workers.RESTORING, lineage
        node.known = self.rules.keeper_round(lineage, in_memory, before)
        node.published, node.indices, node.told = restored.number if restored else 0, {}, {}
        node.removed_for = node.newest_found()
        rank, size = state.members.index(node.member), len(state.members)
        node.place = RoundPlace(rank, size, rank, 1, size)

    @staticmethod
    def _run_of(state: RendezvousState) -> str:
        step = state.step_to_restore()
        return parse_sources(state.sources, step, state.members).run if step else ""

    def report_ready(self, node: SimNode) -> bool:
        """Write `ready` and the holdings in one transaction."""
        state = self.store.state
        if not self._may_write(node) or state is None or node.view != state or state.phase is not RoundPhase.FORMING:
            return False
        key = self.store.keys[node.member]
        if node.workers is not Workers.NONE or key.ready == state.round or state.cause is Cause.FIRST:
            return False
        key.ready = node.ready = state.round
        if self.rules.writes_holdings_with_ready:
            key.record = self._record(node)
        return self._checked()

    def _record(self, node: SimNode) -> HoldingsRecord:
        state = self.store.state or node.view
        line = present_history(state).followed_by(state.older_history()) if state else History()
        node.reported = node.listed or ()
        times = {each: time for time, each in enumerate(node.listed or ())}
        found = eligible(times, line, RUN, may_resume=True)
        record = HoldingsRecord(
            port=1 if node.has_keeper else 0,
            steps=dict(node.volume) if node.has_keeper else {},
            persisted=next(iter(found), None),
            older=tuple(newest_of_lineages(found)[1:]),
            has_listed=node.listed is not None,
        )
        # A record is read from its bytes, as every agent does.
        return decode_holdings(encode_holdings(record))
