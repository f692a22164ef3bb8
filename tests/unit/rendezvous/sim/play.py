"""Histories as data: a line is a verb with arguments; agents are numbered in the order of their starts.

start | turn N | go N | see N | campaign N     one agent: starts; one turn; all views and turns; a view; campaigns.
look | close                                   the leader: gets all events; plans and acts once.
fail N | finish N | stopped N | stick N        its workers: fail; all exit 0; have stopped; get stuck in the kernel.
sigterm N | kill N | expire N | notice N       the agent: gets SIGTERM; ends; its lease expires; it notices that.
arm N REQUEST_LOST|ANSWER_LOST|LATE|CRASH …    the faults of its next calls (`-`: none).
land N                                         the call that was late takes place.
tombstone N REASON                             a tombstone for it is written, and its author ends.
refuse N | probe N                             N refuses the leader's dial; N probes the leader, which refuses.
suspend | resume                               the operator's.
scale N | restart | operate | replace SLOT     changes of the spec; the operator's turn; a slot gets a new pod.
grace S                                        the grace of workers after a planned change.
wipe | backup | restore                        etcd loses all data; a snapshot is taken; etcd is restored to it.
delete                                         the job is deleted: all keys under its prefix.
wait S | settle                                time; all agents get fair turns until nothing changes.
is STATE ROUND [restarts=] [losses=] [cause=] [members=]    the state must be this; members by agent.
runs N ROUND|nothing | key N | nokey N         the round of its workers; whether its node key exists.
had N S                                        the grace of its workers in the last order to stop.
"""

import shlex
from dataclasses import replace

from elasticjob_api import records
from elasticjob_api.records import SlotOwner, SpecRecord, Tombstone, TombstoneReason
from elasticjob_api.rendezvous_state import Member
from elasticjob_etcd.interface import Delete, Put, Txn
from tests.unit.rendezvous.sim.job import SimJob
from tests.unit.rendezvous.sim.node import SimNode
from tests.unit.rendezvous.sim.store import SimStore
from tests.unit.rendezvous.sim.wire import Fault


class Play:
    """One history on one job."""

    def __init__(self, spec: SpecRecord, store: SimStore | None = None) -> None:
        self.job = SimJob(spec, store)

    def run(self, history: str) -> None:
        """Play all lines; an AssertionError names the line."""
        for number, line in enumerate(history.strip().splitlines(), 1):
            for sentence in line.partition("#")[0].split(";"):
                if words := shlex.split(sentence):
                    self._play(f"line {number}: {sentence.strip()}", *words)

    def _play(self, where: str, verb: str, *words: str) -> None:
        try:
            getattr(self, f"do_{verb}")(*words)
            self.job.check_running()
        except AssertionError as error:
            error.add_note(where)
            raise

    def node(self, number: str) -> SimNode:
        """Return an agent by its number."""
        return self.job.nodes[int(number)]

    def _member(self, number: str) -> Member:
        node = self.node(number)
        member = node.running_as if node.session is None else node.session.me.member
        assert member is not None, "it never joined"
        return member

    # -- one agent -------------------------------------------------------------------------------

    def do_start(self) -> None:
        self.job.spawn()

    def do_turn(self, number: str) -> None:
        self.node(number).turn()

    def do_go(self, number: str) -> None:
        for _ in range(20):
            self.do_see(number)
            if not self.node(number).turn():
                return

    def do_see(self, number: str) -> None:
        mirror = self.node(number).mirror
        if mirror is not None:
            mirror.deliver()

    def do_campaign(self, number: str) -> None:
        assert self.node(number).campaign()

    def do_notice(self, number: str) -> None:
        assert self.node(number).notice()

    def do_sigterm(self, number: str) -> None:
        self.node(number).leave_requested = True

    def do_kill(self, number: str) -> None:
        self.node(number).kill()

    def do_expire(self, number: str) -> None:
        session = self.node(number).session
        assert session is not None
        assert self.job.store.expire(session.me.lease)

    def do_arm(self, number: str, *faults: str) -> None:
        self.node(number).etcd.faults = [None if fault == "-" else Fault[fault] for fault in faults]

    def do_land(self, number: str) -> None:
        self.node(number).etcd.land()

    # -- its workers -----------------------------------------------------------------------------

    def do_fail(self, number: str) -> None:
        assert self.node(number).workers.fail(1)

    def do_finish(self, number: str) -> None:
        assert self.job.succeed(self.node(number))

    def do_stopped(self, number: str) -> None:
        assert self.node(number).workers.settle()

    def do_stick(self, number: str) -> None:
        self.node(number).workers.wedged = True

    # -- the leader ------------------------------------------------------------------------------

    def _leader(self) -> SimNode:
        return next(node for node in self.job.running() if node.leading is not None)

    def do_look(self) -> None:
        mirror = self._leader().leader_mirror
        assert mirror is not None
        mirror.deliver()

    def do_close(self) -> None:
        self._leader().close_a_round()

    # -- other agents, the operator, the store ---------------------------------------------------

    def do_tombstone(self, number: str, reason: str) -> None:
        member = self._member(number)
        key, tombstone = self.job.keys.tombstone(member.slot, member.incarnation), Tombstone(TombstoneReason(reason))
        self.job.store.txn(Txn((), (Put(key, records.encode(tombstone)),)))

    def do_refuse(self, number: str) -> None:
        self.job.link_proves(self.node(number))

    def do_probe(self, number: str) -> None:
        assert self.node(number).evict_the_leader()

    def do_suspend(self) -> None:
        assert self.job.suspend()

    def do_resume(self) -> None:
        assert self.job.resume()

    def do_scale(self, desired: str) -> None:
        assert self.job.scale(int(desired))

    def do_restart(self) -> None:
        assert self.job.restart()

    def do_grace(self, seconds: str) -> None:
        assert self.job.change(stop_grace_s=float(seconds))

    def do_operate(self) -> None:
        assert self.job.operate()

    def do_replace(self, slot: str) -> None:
        spec = self.job.spec
        slots = {**spec.slots, int(slot): SlotOwner(f"another-{slot}")}
        assert self.job._write_spec(replace(spec, slots=slots))

    def do_wipe(self) -> None:
        assert self.job.wipe()

    def do_backup(self) -> None:
        self.job.back_up()

    def do_restore(self) -> None:
        assert self.job.restore()

    def do_delete(self) -> None:
        self.job.checker.deleted = True
        self.job.store.txn(Txn((), (Delete(self.job.keys.everything, prefix=True),)))

    def do_wait(self, seconds: str) -> None:
        self.job.now_s += float(seconds)

    def do_settle(self) -> None:
        self.job.settle()

    # -- checks ----------------------------------------------------------------------------------

    def do_is(self, phase: str, round_: str, *facts: str) -> None:
        state = self.job.state
        assert state is not None
        expected = {name: value for name, _, value in (fact.partition("=") for fact in facts)}
        actual = {
            "restarts": str(state.restarts),
            "losses": str(state.node_losses),
            "cause": state.cause.value,
            "members": ",".join(self._number(member) for member in state.members),
        }
        assert (state.phase.value, str(state.round)) == (phase, round_), f"the state is {state}"
        assert {name: actual[name] for name in expected} == expected

    def _number(self, member: Member) -> str:
        numbers = [i for i, node in enumerate(self.job.nodes) if node.session and node.session.me.member == member]
        return str(numbers[0]) if numbers else str(member)

    def do_runs(self, number: str, round_: str) -> None:
        workers = self.node(number).workers
        place = workers.place
        assert (str(place.round) if workers.alive and place is not None else "nothing") == round_

    def do_had(self, number: str, seconds: str) -> None:
        assert self.node(number).workers.grace_s == float(seconds)

    def do_key(self, number: str) -> None:
        assert self._member(number) in self.job.view().nodes

    def do_nokey(self, number: str) -> None:
        assert self._member(number) not in self.job.view().nodes
