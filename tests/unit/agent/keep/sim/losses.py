"""How nodes of a simulated job are lost, leave and come back, and how etcd loses its keys."""

from elasticjob_agent.keep.rules.departure import is_drained
from elasticjob_agent.rendezvous.protocol.last_known_state import is_newer
from elasticjob_api.rendezvous_state import (
    Cause,
    Member,
    RendezvousState,
    RoundPhase,
)
from tests.unit.agent.keep.sim.base import RUN, NodeKey, lineage_of
from tests.unit.agent.keep.sim.checks import Line
from tests.unit.agent.keep.sim.copies import JobCopies
from tests.unit.agent.keep.sim.node import SimNode, Workers


class JobLosses(JobCopies):
    """Faults of nodes, workers and the store."""

    def join(self, node: SimNode) -> bool:
        """Join, with the holdings that the training descends from."""
        state = self.store.state
        if not node.is_here or self.has_key(node) or self.store.is_quiet or state is None or node.is_leaving:
            return False
        if is_newer(node.view, state):
            state = self._write_back(node)
        node.view, node.previous, node.ready = state, self.store.previous, 0
        active = lineage_of(state) if state.phase is RoundPhase.ACTIVE else None
        node.volume = dict(self.rules.select_alive(node.volume, state.kept_history(), active))
        self.list_directory(node)
        self.store.keys[node.member] = NodeKey(0, self._record(node))
        return self._checked()

    def _write_back(self, node: SimNode) -> RendezvousState:
        assert node.view is not None
        self.store.state, self.store.previous = node.view, node.previous
        return node.view

    def _rejoin_later(self, node: SimNode) -> None:
        node.stop_workers()
        node.member = Member(node.member.slot, self._draw())
        node.points.clear()
        node.last_point, node.ready = None, 0

    def crash(self, node: SimNode) -> bool:
        """Lose the node and its volume."""
        if not node.is_alive:
            return False
        node.is_alive = False
        self.truth.lose()
        return True

    def expire(self, node: SimNode) -> bool:
        """End the lease of a node that is dead or cut off."""
        if node.is_here or not self.has_key(node) or self.store.is_quiet:
            return False
        del self.store.keys[node.member]
        return True

    def replace_pod(self, node: SimNode) -> bool:
        """Put a new pod with an empty volume in the place of a dead one."""
        if node.is_alive or self.has_key(node):
            return False
        self.nodes[self.nodes.index(node)] = SimNode(Member(node.member.slot, self._draw()))
        return True

    def cut_off(self, node: SimNode) -> bool:
        """Cut the node off from all others."""
        if not node.is_here:
            return False
        node.is_reachable = False
        self.truth.lose()
        return True

    def hide_directory(self, node: SimNode) -> bool:
        """Let the shared directory not answer on this node."""
        was, node.can_list = node.can_list, False
        return was

    def damage_directory(self, choice: int = 0) -> bool:
        """Let a step of the shared directory be gone, as if a person had removed it: by default the newest one."""
        if not self.persisted:
            return False
        self.persisted.pop(-1 - choice % len(self.persisted))
        return True

    def show_directory(self, node: SimNode) -> bool:
        """End that."""
        was, node.can_list = node.can_list, True
        return not was

    def heal(self, node: SimNode) -> bool:
        """End that; a node whose lease has ended stops its workers and joins anew."""
        if node.is_reachable or not node.is_alive:
            return False
        node.is_reachable = True
        if not self.has_key(node) and not self.store.is_quiet:
            self._rejoin_later(node)
        return True

    def restart_agent(self, node: SimNode) -> bool:
        """Restart the agent over its volume."""
        if not node.is_here or not self.has_key(node) or self.store.is_quiet:
            return False
        del self.store.keys[node.member]
        self._rejoin_later(node)
        node.view, node.lineage, node.is_leaving, node.listed = None, None, False, None
        self.truth.lose()
        return True

    def break_keeper(self, node: SimNode) -> bool:
        """Restart the agent, and let its keeper not open the volume."""
        if not self.restart_agent(node):
            return False
        node.has_keeper = False
        return True

    def mend_keeper(self, node: SimNode) -> bool:
        """Let the keeper open the volume."""
        was, node.has_keeper = node.has_keeper, True
        return not was

    def fail_worker(self, node: SimNode) -> bool:
        """Let a worker fail; its agent opens a round."""
        if not self._may_write(node) or not self._is_current(node) or not node.is_running:
            return False
        self.open(Cause.WORKER_FAILED)
        node.stop_workers()
        node.view = self.store.state
        return self._checked()

    def leave(self, node: SimNode) -> bool:
        """Begin to leave, as on SIGTERM. Its workers may still publish."""
        if not self._may_write(node) or node.is_leaving:
            return False
        self.store.keys[node.member].is_leaving = node.is_leaving = True
        if self._is_current(node):
            self.open(Cause.NODE_LEFT)
        return True

    def depart(self, node: SimNode) -> bool:
        """End a node that leaves, when nothing it holds is needed."""
        if not self._may_write(node) or not node.is_leaving or node.workers is not Workers.NONE or node.view is None:
            return False
        active = lineage_of(node.view) if node.view.phase is RoundPhase.ACTIVE else None
        alive = self.rules.select_alive(node.volume, node.view.kept_history(), active)
        if not is_drained(list(alive), active, node.last_point):
            return False
        if alive and active is not None:
            self.truth.note_departure(len(self.worlds[active]))
        del self.store.keys[node.member]
        node.is_alive = False
        return self._checked()

    def wipe(self, back_to: int | None = None) -> bool:
        """Lose all keys; the state is lost, too, or an older one comes back from a backup."""
        if self.store.is_quiet or not any(node.is_here and node.view for node in self.nodes):
            return False
        self.store.is_quiet = True
        self.store.keys.clear()
        lost = (None, frozenset[Member]())
        self.store.state, self.store.previous = lost if back_to is None else self.past[back_to % len(self.past)]
        return True

    def come_back(self, node: SimNode) -> bool:
        """Rejoin after a wipe with the same incarnation, and write back the newer state."""
        if not self.store.is_quiet or not node.is_here or self.has_key(node) or node.view is None:
            return False
        if is_newer(node.view, self.store.state):
            self._write_back(node)
        self.store.keys[node.member] = NodeKey(node.ready, self._record(node), node.is_leaving)
        return self._checked()

    def end_quiet_time(self) -> bool:
        """Go on after a wipe: all agents that can have rejoined."""
        waits = any(node.is_here and node.view and not self.has_key(node) for node in self.nodes)
        if not self.store.is_quiet or waits:
            return False
        if self.store.state is None:
            self._begin_anew()
        self.store.is_quiet = False
        return True

    def _begin_anew(self) -> None:
        """Begin another run, because no node that knew the state is here; its rounds have higher numbers."""
        self._runs += 1
        round_ = max(state.round for state, _ in self.past) + 1000
        state = RendezvousState(phase=RoundPhase.FORMING, round=round_, nonce=self._draw(), run=f"{RUN}{self._runs}")
        self._write(state, Line())
