"""One simulated job: its store, its agents, its clock, its operator; and the fair run to the end.

With an operator, it owns the slots and replaces lost pods. Without one the test starts the agents.
"""

from collections.abc import Mapping
from dataclasses import replace

from elasticjob_agent.rendezvous.member.no_keep import NoKeep
from elasticjob_agent.rendezvous.protocol import membership, ranks
from elasticjob_agent.rendezvous.protocol.interfaces import KeepPort
from elasticjob_agent.rendezvous.protocol.leader_plan import plan
from elasticjob_agent.rendezvous.protocol.ranks import Assignment
from elasticjob_api import records, rendezvous_state
from elasticjob_api.bootstrap import Bootstrap, bootstrap_of
from elasticjob_api.exit_codes import ExitCode
from elasticjob_api.keys import Keys
from elasticjob_api.records import ExpectedSlots, SlotOwner, SpecRecord, TombstoneReason
from elasticjob_api.rendezvous_state import Cause, Member, RendezvousState, RoundPhase
from elasticjob_api.rendezvous_view import RendezvousView, parse_view
from elasticjob_api.runtime_config import runtime_config_of
from elasticjob_etcd.interface import Op, Put, Txn, absent, unchanged
from elasticjob_operator.policy.lifecycle.state_transitions import resumed_state, suspended_state
from tests.unit.rendezvous.sim.invariants import InvariantChecker, missing_members
from tests.unit.rendezvous.sim.keep import KeepChecker, SimKeep, Volume
from tests.unit.rendezvous.sim.node import SimNode
from tests.unit.rendezvous.sim.store import SimStore

_PAUSES_S = (0.5, 1.5, 15.0, 60.0)
_MOST_PASSES = 600
_CATCHING_UP = 2
"""Passes in which agents may still be evicted for the time before the fair run."""
_MOST_TURNS = 60


class SimJob:
    """A job with its agents and its operator."""

    def __init__(self, spec: SpecRecord, store: SimStore | None = None) -> None:
        self.store = store or SimStore()
        self.keys = Keys("/elasticjob/cli/sim")
        self.checker = InvariantChecker(self.store, self.keys)
        self.keep_checker = (
            None if spec.keep_copies is None else KeepChecker(self.store, self.keys, self._volumes, self.view)
        )
        self.nodes: list[SimNode] = []
        self.now_s = 0.0
        self.unsettled = False
        """Whether the store was wiped and some agents have not rejoined yet."""
        self._last_spec = spec
        self.at_once: int | None = None
        """How many revisions a watch delivers together in a fair run; None: all."""
        self.disturbances = 0
        """How often a new round may have become necessary since the beginning."""
        self._draws = 0
        self._pods = 0
        self._bootstraps: dict[str, Bootstrap] = {}
        self._own_spec = None if spec.operator else spec
        if spec.operator:
            self._write_spec(self._filled(spec))
        else:
            self.store.txn(Txn((), (Put(self.keys.spec, records.encode(spec)),)))

    def _volumes(self) -> dict[str, Volume]:
        return {node.pod: node.keep.volume for node in self.nodes if isinstance(node.keep, SimKeep)}

    def make_keep(self) -> KeepPort:
        """Return the keeper of a new node."""
        return NoKeep() if self.keep_checker is None else SimKeep(self._live_volumes, self._restore_failed)

    def _live_volumes(self) -> list[Volume]:
        volumes = self._volumes()
        return [volumes[node.pod] for node in self.running()]

    def _restore_failed(self) -> None:
        self.disturbances += 1

    def check_restored(self, node: SimNode, place: Assignment) -> None:
        """K3: a node starts its workers only when it has the whole step that the round restores."""
        if self.keep_checker is not None and isinstance(node.keep, SimKeep):
            self.keep_checker.check_start(node.keep, place)

    def random_hex(self) -> str:
        """Return eight hex digits that were never drawn before."""
        self._draws += 1
        return f"{self._draws:08x}"

    @property
    def spec(self) -> SpecRecord:
        """The current spec."""
        return self.view().spec or self._last_spec

    @property
    def state(self) -> RendezvousState | None:
        """The current rendezvous state."""
        return self.checker.state

    def view(self) -> RendezvousView:
        """Return the current view."""
        return self.checker.view()

    @property
    def ended(self) -> bool:
        """Whether a final state was written."""
        return self.state is not None and self.state.phase.is_final

    # -- agents ----------------------------------------------------------------------------------

    def spawn(self, slot: int | None = None, pod: str = "") -> SimNode:
        """Start one more agent process."""
        self._pods += 1
        pod = pod or f"pod-{self._pods}"
        node = SimNode(self, pod, slot, self._own_spec, self._bootstrap(slot, pod))
        self.nodes.append(node)
        return node

    def _bootstrap(self, slot: int | None, pod: str) -> Bootstrap | None:
        """Return the bootstrap that the operator gave the pod; it creates pods of the spec, each once."""
        view = self.view()
        owner = None if slot is None or view.spec is None else view.spec.owner(slot)
        if view.spec is not None and owner is not None and owner.pod == pod:
            self._bootstraps.setdefault(pod, bootstrap_of(view.spec, view.spec_revision))
        return self._bootstraps.get(pod)

    def running(self) -> list[SimNode]:
        """Return the agents whose process exists."""
        return [node for node in self.nodes if node.alive]

    def check_running(self) -> None:
        """3: no agent runs an older round unless its key is gone, it has a tombstone, or it is wedged."""
        self.unsettled = self.unsettled and not all(self._has_rejoined(node) for node in self.running())
        if self.unsettled:
            return
        busy = [node for node in self.running() if node.workers.alive and node.workers.place is not None]
        newest = max((node.workers.place.round for node in busy if node.workers.place), default=0)
        for node in busy:
            assert node.workers.place is not None
            assert node.running_as is not None
            if node.workers.place.round < newest and not node.workers.wedged:
                message = f"3: {node.pod} still runs round {node.workers.place.round} beside {newest}"
                assert self.checker.is_excused(node.running_as), message

    def _has_rejoined(self, node: SimNode) -> bool:
        knows = node.known_resets == self.checker.wipes and not node.lost
        return knows and (not node.workers.alive or node.last_known.revision == self.view().state_revision)

    def check_write(self, view: RendezvousView, new: RendezvousState) -> None:
        """Check a state that the leader is about to write against its view."""
        old = view.state
        if old is None:
            return
        if new.restarts > old.restarts or new.cause is Cause.MAX_RESTARTS:
            missing = missing_members(view, view.membership)
            assert not missing, f"5: charged although {missing} left or were lost"
        if old.phase is RoundPhase.ACTIVE and new.phase is RoundPhase.FORMING:
            self._check_opening(view, old, new)

    @staticmethod
    def _check_opening(view: RendezvousView, old: RendezvousState, new: RendezvousState) -> None:
        """7: the leader opens no round with the same members, unless a restart was requested."""
        assert view.spec is not None
        ready = membership.candidates(view)
        taken = ranks.select(view, ready, view.spec.sizes.largest(min(len(ready), view.spec.target_size)))
        same = {node.member for node in taken} == set(old.members)
        assert not same or new.cause is Cause.RESTART_REQUESTED, f"7: {new.cause} opens the same members again"

    def link_proves(self, node: SimNode) -> None:
        """Let every leader conclude that the process of this session does not answer, true or not."""
        if node.session is not None:
            for leader in self.running():
                if leader.leading is not None and leader is not node:
                    leader.proved |= {node.session.me.member}

    @staticmethod
    def check_loss_grace(view: RendezvousView, *, in_doubt: bool) -> None:
        """19: a loss grace needs several hosts and members without tombstones, and is never repeated.

        A leader that has just lost its own lease and rejoined (`in_doubt`) waits for any silent member.
        """
        assert view.state is not None
        assert view.membership is not None
        assert not view.state.loss_grace_spent, "19: a second loss grace of the same membership"
        missing = missing_members(view, view.membership)
        silent = [member for member in missing if member not in view.nodes and member not in view.tombstones]
        assert silent, "19: a loss grace without a silent member"
        if in_doubt:
            return
        assert len(silent) >= 2, "19: a loss grace for a single loss"  # each simulated pod is a host of its own
        assert len(silent) / len(view.membership.members) >= 0.3, "19: a loss grace for a few of many"

    def evict(self, node: SimNode, reason: TombstoneReason) -> bool:
        """Write a tombstone for its session, and nothing more."""
        if node.session is None or self.ended:
            return False
        member = node.session.me.member
        key = self.keys.tombstone(member.slot, member.incarnation)
        put = Put(key, records.encode(records.Tombstone(reason)))
        return self.store.txn(Txn((absent(key),), (put,))).succeeded

    # -- the operator ----------------------------------------------------------------------------

    def _write_spec(self, spec: SpecRecord, new_state: RendezvousState | None = None) -> bool:
        view = self.view()
        if view.state is not None and view.state.phase.is_final:
            return False
        ops: list[Op] = [Put(self.keys.spec, records.encode(spec))]
        before = {} if view.spec is None else view.spec.slots
        if filled := [slot for slot, owner in sorted(spec.slots.items()) if before.get(slot) != owner]:
            expected = ExpectedSlots(tuple(filled))
            ops.append(Put(self.keys.expected, records.encode(expected)))
        if new_state is not None:
            ops.append(Put(self.keys.rendezvous_state, rendezvous_state.encode_state(new_state)))
        compares = (
            unchanged(self.keys.spec, view.spec_revision),
            unchanged(self.keys.rendezvous_state, view.state_revision),
        )
        assert self.store.txn(Txn(compares, tuple(ops))).succeeded
        self._last_spec = spec
        self._follow_map(spec)
        return True

    def _follow_map(self, spec: SpecRecord) -> None:
        """Create the pods that the map names, and delete the others."""
        if spec.operator is None:
            return
        names = {owner.pod for owner in spec.slots.values()}
        for node in self.running():
            node.leave_requested = node.leave_requested or node.pod not in names
        known = {node.pod for node in self.nodes}
        for slot, owner in spec.slots.items():
            if owner.pod not in known:
                self.spawn(slot, owner.pod)

    def _filled(self, spec: SpecRecord) -> SpecRecord:
        """Return the spec with `desired` slots, each with an owner; the highest slots are dropped first."""
        slots = dict(sorted(spec.slots.items())[: spec.desired])
        for slot in range(spec.desired):
            if slot not in slots:
                self._pods += 1
                slots[slot] = SlotOwner(f"pod-{self._pods}")
        return replace(spec, slots=slots)

    def operate(self) -> bool:
        """Take one turn of the operator: evict members without a process, and replace lost ones."""
        spec = self.spec
        if spec.operator is None or self.ended:
            return False
        if self.view().spec is None:
            return self._write_spec(self._after_a_wipe(spec))
        return self._evict_dead() or self._replace_dead(spec)

    def _after_a_wipe(self, spec: SpecRecord) -> SpecRecord:
        """Return the spec after a wipe: the map of live pods remains, and rounds begin at far higher numbers."""
        known = max(state.round for state in self.checker.states) if self.checker.states else 0
        restarts = self.checker.states[-1].restarts if self.checker.states else 0
        return replace(spec, first_round=known + 1000, first_restarts=restarts)

    def wipe(self) -> bool:
        """Wipe etcd, unless the job has ended."""
        if self.ended:
            return False
        self.unsettled = True
        self.store.wipe()
        return True

    def back_up(self) -> None:
        """Take a snapshot of etcd."""
        self.store.back_up()

    def restore(self) -> bool:
        """Restore etcd to the last snapshot."""
        if self.ended or not self.store.is_backed_up:
            return False
        self.unsettled = True
        self.store.restore()
        return True

    def _evict_dead(self) -> bool:
        here = {node.pod for node in self.running()}
        for member, live in self.view().nodes.items():
            if live.record.pod not in here:
                tombstone = records.Tombstone(TombstoneReason.POD_FAILED)
                self.store.txn(
                    Txn((), (Put(self.keys.tombstone(member.slot, member.incarnation), records.encode(tombstone)),))
                )
                return self.store.revoke(live.record.lease)
        return False

    def _replace_dead(self, spec: SpecRecord) -> bool:
        if spec.suspended:
            return False
        over = {node.pod for node in self.nodes if not node.alive or node.workers.wedged}
        # A finished member is not replaced, unless no agent is left to write that the job has succeeded.
        done = self._done_slots() if self.running() else set()
        in_use = {s: owner for s, owner in spec.slots.items() if owner.pod not in over or s in done}
        if in_use == spec.slots:
            return False
        for node in self.running():
            if node.workers.wedged and node.pod in over:
                node.kill()
        return self._write_spec(self._filled(replace(spec, slots=in_use)))

    def _done_slots(self) -> set[int]:
        view = self.view()
        if view.state is None or view.state.phase is not RoundPhase.ACTIVE:
            return set()
        return {slot for round_, slot in view.completions if round_ == view.state.round}

    def scale(self, desired: int) -> bool:
        """Change the desired number of nodes."""
        spec = replace(self.spec, desired=desired)
        if spec.suspended:
            return False
        return self._write_spec(spec if spec.operator is None else self._filled(spec))

    def restart(self) -> bool:
        """Request a restart."""
        return self._write_spec(replace(self.spec, restart_id=self.random_hex()))

    def change(self, *, stop_grace_s: float) -> bool:
        """Change a field that applies to running workers."""
        return self._write_spec(replace(self.spec, graceful_shutdown_s=stop_grace_s))

    def suspend(self) -> bool:
        """Write `suspended` and an empty map in one transaction."""
        spec, now = self.spec, self.state
        if spec.suspended:
            return False
        halted = None if now is None else suspended_state(now, self.random_hex())
        return self._write_spec(replace(spec, suspended=True, slots={}), halted)

    def resume(self) -> bool:
        """Write new names in the map and the next round in one transaction; earlier failures get no verdict."""
        spec, now = self.spec, self.state
        if not spec.suspended:
            return False
        opened = None
        if now is not None and now.phase is RoundPhase.SUSPENDED:
            opened = resumed_state(now, self.random_hex())
        return self._write_spec(self._filled(replace(spec, suspended=False, slots={})), opened)

    # -- the fair run ----------------------------------------------------------------------------

    def fair_pass(self, but: SimNode | None = None) -> bool:
        """Let all agents (`but` one) have a turn and see everything; return whether any had something to do."""
        moved = self.operate()
        for node in [node for node in self.nodes if node is not but]:
            if node.mirror is not None:
                moved |= node.mirror.deliver(self.at_once)
            moved |= node.notice()
            moved |= self._turns(node)
            moved |= node.campaign()
            if node.leader_mirror is not None:
                moved |= node.leader_mirror.deliver(self.at_once)
            moved |= node.close_a_round()
            moved |= node.workers.settle()
            self.check_running()
        return moved

    def _turns(self, node: SimNode) -> bool:
        for count in range(_MOST_TURNS):
            if not node.turn():
                return count > 0
            self.check_running()
            if node.mirror is not None:
                node.mirror.deliver()
        raise AssertionError(f"8: {node.pod} makes no progress")

    def settle(self) -> None:
        """Run fairly, without further faults, until nothing changes whatever time passes (8)."""
        for node in self.nodes:
            node.etcd.faults.clear()
        pauses = 0
        for count in range(_MOST_PASSES):
            proved = self.view().tombstones
            if self.fair_pass() or self._run_out():
                pauses = 0
                if count >= _CATCHING_UP:
                    self._check_evictions(proved)
            elif pauses == len(_PAUSES_S):
                return
            else:
                self.now_s += _PAUSES_S[pauses]
                pauses += 1
        raise AssertionError(f"8: no end in {_MOST_PASSES} passes; the state is {self.state}")

    def _check_evictions(self, before: Mapping[Member, records.Tombstone]) -> None:
        """Check that with turns and time to stop for all only agents that cannot stop are evicted as wedged."""
        able = {node.session.me.member: node for node in self.running() if node.session is not None}
        for member, tombstone in self.view().tombstones.items():
            if member not in before and tombstone.reason is TombstoneReason.WEDGED and member in able:
                assert able[member].workers.alive, f"{member} was evicted although it had stopped"

    def _run_out(self) -> bool:
        leftovers = [lease for node in self.nodes for lease in node.leftovers()]
        for lease in leftovers:
            self.store.expire(lease)
        return bool(leftovers)

    def provide(self) -> None:
        """Add healthy agents up to the least number of the job; an operator does so by itself."""
        spec = self.spec
        if spec.operator is not None:
            self.resume()
            return
        least = next(count for count in range(1, spec.max + 1) if spec.sizes.largest(count))
        while not self.ended and sum(node.healthy for node in self.nodes) < least:
            self.spawn()

    def is_running(self) -> bool:
        """Return whether a round is active and each of its members runs it or is done with it."""
        if self.state is None or self.state.phase is not RoundPhase.ACTIVE:
            return False
        here = {node.session.me.member: node for node in self.running() if node.session is not None}
        return all(
            (self.state.round, member) in self.checker.succeeded
            or (member in here and here[member].workers.alive and here[member].running_as == member)
            for member in self.state.members
        )

    def check_idempotent(self) -> None:
        """7: where nothing is left to do, a plan of the same state is the same plan."""
        for node in self.nodes:
            if node.leading is not None and node.leader_mirror is not None:
                view = parse_view(self.keys, node.leader_mirror.items)
                observed = node.leading._observations.update(view, self.now_s)
                first, second = plan(view, observed, "a"), plan(view, observed, "b")
                assert first == second, "7: plan is not idempotent"

    def finish(self) -> None:
        """Let the workers of all members succeed, again after each round that this may still take."""
        for _ in range(10):
            for node in self.running():
                self.succeed(node)
            self.settle()
            if self.ended:
                return
        raise AssertionError(f"8: all workers are done, and the job is not; the state is {self.state}")

    def succeed(self, node: SimNode) -> bool:
        """Let all workers of one node exit with code 0."""
        if not node.workers.finish():
            return False
        assert node.workers.place is not None
        assert node.running_as is not None
        self.checker.succeeded.add((node.workers.place.round, node.running_as))
        return True

    def check_runtime_config_is_known(self) -> None:
        """Check that each agent has the current runtime config of the spec, and all have the one key of their links."""
        if self.state is None or self.state.phase is not RoundPhase.ACTIVE:
            return
        able = [node for node in self.running() if node.session is not None and not node.workers.wedged]
        configs = {node.session.runtime_config for node in able if node.session is not None}
        assert configs <= {runtime_config_of(self.spec)}, f"agents have {configs}"
        keys = {node.mirror.items[self.keys.link_secret].value for node in able if node.mirror is not None}
        assert len(keys) == 1, "agents have no key, or several"

    def check_tombstones_are_used(self) -> None:
        """18: where a session has a tombstone, its key is deleted, also if the author of the tombstone has ended."""
        view = self.view()
        with_tombstone = [member for member in view.nodes if member in view.tombstones]
        assert not with_tombstone or self.ended, f"18: {with_tombstone} have tombstones and keys"

    def check_ends(self) -> None:
        """8: after a final state all agents exit, and no key of theirs remains."""
        assert self.state is not None
        failed = self.state.phase is RoundPhase.FAILED
        for node in self.nodes:
            assert not node.alive or node.workers.wedged, f"8: {node.pod} did not exit"
            if node.outcome is not None and not failed:
                assert node.outcome in {ExitCode.OK, ExitCode.LEFT, ExitCode.SUPERSEDED}, node.outcome
        wedged = {node.session.me.member for node in self.running() if node.session is not None}
        assert set(self.view().nodes) <= wedged, "18: keys are left behind"
