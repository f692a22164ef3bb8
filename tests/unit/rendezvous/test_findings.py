"""Histories that broke simpler protocols, and that end correctly with this one.

The numbers are the findings of docs/architecture/rendezvous.md. The verbs are explained in `sim/play.py`.
"""

import pytest

from elasticjob_agent.rendezvous.protocol import transactions
from elasticjob_api.exit_codes import ExitCode
from elasticjob_api.records import NodeReport, NodeSamples, SpecRecord
from elasticjob_etcd.interface import Delete, Txn
from tests.unit.rendezvous.sim.job import SimJob
from tests.unit.rendezvous.sim.play import Play

OPERATOR = "operator-1"


def play(
    history: str, *, least: int = 1, most: int = 2, operator: str | None = None, failure_grace_s: float = 5.0
) -> Play:
    """Let two agents run round 1, and then play the history."""
    made = Play(SpecRecord(min=least, max=most, desired=2, operator=operator, failure_grace_s=failure_grace_s))
    if operator is None:
        made.run("\n".join(["start"] * made.job.spec.desired))
    made.run("settle; is active 1")
    made.run(history)
    return made


ALONE = {
    "1: a round does not close while live agents still stop their workers": """
        restart; look; close; is forming 2
        go 0; stopped 0; go 0                         # A is ready
        go 1; wait 5; look; close; is forming 2       # B is stopping, also after a long time
        stopped 1; go 1; look; close; is active 2 members=0,1
    """,
    "2: peers stop at once when one leaves, while its workers still save": """
        sigterm 1; turn 1; is forming 2 cause=NodeLeft
        go 0; stopped 0; go 0; look; close; is forming 2
        runs 1 1; key 1                               # it still runs round 1, so no agent runs round 2
        go 1; stopped 1; go 1; nokey 1
        look; close; is active 2 members=0 restarts=0 losses=0
    """,
    "3: a replacement in the same slot does not run the round of the one it replaces": """
        kill 1; expire 1; start; go 2; see 2; go 2
        is active 1; runs 2 nothing
        settle; is active 2 members=0,2 losses=1
    """,
    "4: a failure because of a lost node is not charged, even if it is seen first": """
        kill 1; fail 0; turn 0; is forming 2 cause=WorkerFailed
        go 0; stopped 0; go 0; look; close; is forming 2
        expire 1; look; close; is active 2 members=0 restarts=0 losses=1
    """,
    "4: nor is a failure because of a leaving node": """
        fail 0; turn 0; is forming 2 cause=WorkerFailed
        sigterm 1; go 1; stopped 1; go 1; nokey 1
        go 0; stopped 0; go 0; look; close; is active 2 members=0 restarts=0 losses=0
    """,
    "6: a joiner that no round would include opens none": """
        start; go 2; wait 1000; look; close; wait 1000; close; is active 1 members=0,1
        settle; is active 1
    """,
    "8: an evicted live agent notices, and joins again as another incarnation": """
        stick 1; restart; look; close; go 1; go 0; stopped 0; go 0
        look; close; is forming 2; wait 50; close; nokey 1
        notice 1; look; close; is active 2 members=0 losses=1
        go 1; runs 1 1                                # it cannot stop them: nothing is started beside them
    """,
    "9: an evicted leader leads no longer": """
        kill 0; expire 0; go 1; campaign 1; go 1; look; close; is forming 2 cause=NodeLost
        settle; is active 2 members=1
    """,
    "9: a member whose link to a crashed leader has ended evicts it": """
        kill 0; probe 1; nokey 0; go 1; campaign 1; go 1; look; close; is forming 2 cause=NodeLost
        settle; is active 2 members=1 losses=1
    """,
    "a process that refuses a dial is lost before its lease ends": """
        kill 1; look; close; is active 1; refuse 1; close; nokey 1; look; close; is forming 2 cause=NodeLost
        settle; is active 2 members=0 losses=1
    """,
    "a wrong proof costs one round and no more": """
        refuse 1; close; nokey 1; settle; is active 2 members=0,1 restarts=0 losses=1
    """,
    "a wrong proof against the leader costs one round and no more": """
        probe 1; nokey 0; settle; is active 2 members=0,1 restarts=0 losses=1
    """,
    "10: the job succeeds without another event after the last member": """
        finish 0; go 0; finish 1; go 1; look; close; is succeeded 1
        settle; runs 0 nothing; runs 1 nothing
    """,
    "12: a larger desired size restarts nothing by itself": """
        scale 3; look; close; wait 1000; close; is active 1
        start; settle; is active 2 members=0,1,2 cause=NodeJoined restarts=0
    """,
    "12: a change of the size that is undone in time restarts nothing": """
        scale 3; look; close; scale 2; look; close; scale 3; look; close; wait 1000; close; is active 1
        scale 2; scale 1; scale 2; look; close; wait 1000; close; is active 1; runs 0 1; runs 1 1
    """,
    "16: the leader continues when only its own write has changed the state": """
        restart; look; close; is forming 2
        go 0; stopped 0; go 0; go 1; stopped 1; go 1; look; close; is active 2
        look; close; is active 2
    """,
    "20: an agent that lost its lease joins again as another incarnation, and no failure is charged": """
        expire 1; look; close; is forming 2 cause=NodeLost
        notice 1; go 1; stopped 1; go 1; key 1
        settle; is active 2 members=0,1 restarts=0 losses=1
    """,
    "20: it puts its key back if no other agent has noticed": """
        expire 1; notice 1; turn 1; key 1; runs 1 1
        settle; is active 1 members=0,1
    """,
    "13: a leader that has just lost its own lease gives the other members a loss grace": """
        expire 0; expire 1; notice 0; go 0; key 0; campaign 0; go 0; look; close; wait 5; close; is active 1
        notice 1; go 1; key 1; look; close; wait 5; close; is active 1; runs 0 1; runs 1 1
    """,
    "13: and no longer": """
        kill 1; expire 0; expire 1; notice 0; go 0; campaign 0; go 0; look; close; is active 1
        wait 6; close; is forming 2 cause=NodeLost
    """,
    "20: but not if it has a tombstone": """
        tombstone 1 refused; expire 1; notice 1; turn 1; nokey 1
        settle; is active 2 members=0,1 restarts=0 losses=1
    """,
    "21: the leader dies between tombstone and eviction, and the next leader evicts": """
        stick 1; restart; look; close; go 1; go 0; stopped 0; go 0; look; close
        wait 50; arm 0 - CRASH; close; key 1; expire 0
        go 1; campaign 1; go 1; look; close; nokey 1
    """,
    "21: a tombstone by any author is enough": """
        tombstone 1 refused; key 1; look; close; nokey 1
        settle; is active 2 members=0,1 losses=1
    """,
    "25: the leader plans from what its watch shows, not from what it wrote": """
        restart; look; close; is forming 2
        close; close; is forming 2; runs 0 1; runs 1 1
        settle; is active 2
    """,
}


@pytest.mark.parametrize("history", ALONE.values(), ids=ALONE)
def test_finding(history: str) -> None:
    play(history, most=3)


def test_finding_10_the_leaders_one_watch_shows_all_that_it_decides_from_and_no_report() -> None:
    keys = SimJob(SpecRecord(min=1, max=1, desired=1)).keys
    nobody = "0" * 8
    decides = (keys.spec, keys.expected, keys.rendezvous_state, keys.members, keys.leader, keys.node(0, nobody))
    others = (keys.tombstone(0, nobody), keys.completion(1, 0), keys.failure(1, 0, 0))
    assert [key for key in (*decides, *others) if not key.startswith(keys.control)] == []
    assert not keys.report(0, nobody).startswith(keys.control)
    assert not keys.samples(0, nobody).startswith(keys.control)


def test_finding_10_a_report_neither_wakes_the_leader_nor_changes_its_decision() -> None:
    made = play("")
    node = made.node("0")
    assert node.session is not None
    assert node.leader_mirror is not None
    record, samples = NodeReport(pod=node.pod, pod_uid="u", round=1, group_rank=0), NodeSamples(round=1)
    written = made.job.store.txn(transactions.report(node.session.me, record, samples))
    assert made.job.store.txn(transactions.samples(node.session.me, samples, written.revision)).succeeded
    assert not node.leader_mirror.pending
    assert not node.close_a_round()


def test_finding_8_a_refused_report_makes_an_agent_rejoin_whose_key_was_deleted() -> None:
    made = play("")
    node = made.node("1")
    assert node.session is not None
    made.job.store.txn(Txn((), (Delete(node.session.me.node_key),)))  # its lease is alive: no keeper ever notices
    record = NodeReport(pod=node.pod, pod_uid="u", round=1, group_rank=1)
    report = transactions.report(node.session.me, record, NodeSamples(round=1))
    node.lost = not made.job.store.txn(report).succeeded  # as the reporter does
    made.run("turn 1; key 1; settle; is active 1 members=0,1; runs 1 1")


TERMS = {
    "a change is pushed while a round runs, and counts for the next stop": """
        grace 77; look; close; is active 1; go 0; go 1; restart; look; close; go 0; go 1; had 0 77; had 1 77
    """,
    "it is pushed together with a round that the leader opens": """
        grace 77; restart; look; close; is forming 2; go 0; go 1; had 0 77; had 1 77
    """,
    "an agent that lost its lease has it after its return": """
        grace 77; look; close; look; close; expire 1; notice 1; turn 1; go 1; key 1
        restart; look; close; go 1; had 1 77
    """,
    "and after a wipe it is pushed again": """
        wipe; settle; grace 77; settle; restart; look; close; go 0; go 1; had 0 77; had 1 77
    """,
}


@pytest.mark.parametrize("history", TERMS.values(), ids=TERMS)
def test_agents_follow_the_spec_when_they_stop_workers(history: str) -> None:
    play(history)


def test_finding_12_a_joiner_does_not_interrupt_a_job_with_a_done_member() -> None:
    play("finish 0; go 0; start; go 2; wait 1000; look; close; is active 1", most=3).run(
        "scale 3; look; close; is active 1; finish 1; settle; is succeeded 1"
    )


FOUR = {
    "13: several members that are lost at once get time to return, and cost nothing if they do": """
        expire 2; expire 3; look; close; is active 1; wait 5; close; is active 1; runs 2 1; runs 3 1
        notice 2; go 2; notice 3; go 3; look; close; wait 5; close; is active 1 losses=0
    """,
    "13: if one of them returns, a single loss remains, which has no grace": """
        kill 3; expire 2; expire 3; look; close; is active 1; notice 2; go 2; look; close; is forming 2 cause=NodeLost
    """,
    "13: a tombstone ends the grace": """
        kill 2; kill 3; expire 2; expire 3; look; close; is active 1
        tombstone 2 refused; look; close; is forming 2 cause=NodeLost
    """,
    "26: a membership has one grace, also with another leader": """
        kill 2; kill 3; expire 2; expire 3; look; close; is active 1; wait 6; close; is forming 2
        go 0; stopped 0; go 0; go 1; stopped 1; go 1
        kill 0; expire 0; go 1; campaign 1; go 1; look; close; is active 2 members=1 losses=1
    """,
}


@pytest.mark.parametrize("history", FOUR.values(), ids=FOUR)
def test_finding_of_many_silent_members_at_once(history: str) -> None:
    made = Play(SpecRecord(min=1, max=4, desired=4))
    made.run("start; start; start; start; settle; is active 1 members=0,1,2,3")
    made.run(history)


def test_finding_23_a_verdict_survives_a_suspension_and_is_not_repeated() -> None:
    history = """
        scale 3; fail 0; go 0; stopped 0; go 0; go 1; stopped 1; go 1; look; close; is forming 2 restarts=1
        suspend; resume; settle; is active 3 restarts=1 losses=0
    """
    play(history, most=3, operator=OPERATOR)


def test_finding_27_a_pod_has_one_last_call() -> None:
    history = """
        scale 3; fail 0; go 0; stopped 0; go 0; go 1; stopped 1; go 1; look; close; look; close; is forming 2
        wait 5; close; is active 2 members=0,1
        go 0; go 1; fail 0; go 0; stopped 0; go 0; go 1; stopped 1; go 1; look; close; is active 3 members=0,1
    """
    play(history, most=3, operator=OPERATOR)


WIPED = {
    "7: a slow agent writes its round back, and another agent overwrites it with a newer one": """
        restart; look; close; go 0; stopped 0; go 0   # 1 has not seen that round 2 forms
        wipe; see 1; turn 1; turn 1; is active 1; runs 1 1
        go 0; is forming 2; settle; is active 2 restarts=0
    """,
    "a healthy job continues as it was": """
        wipe; go 0; go 1; key 0; key 1; runs 0 1; runs 1 1; is active 1 members=0,1
        settle; is active 1 members=0,1; runs 0 1; runs 1 1
    """,
    "no round opens for an agent that has not returned yet": """
        wipe; go 0; campaign 0; go 0; look; close; is active 1; nokey 1
        wait 5; close; is active 1; go 1; key 1
        wait 2; look; close; is active 1; settle; is active 1 members=0,1 losses=0
    """,
    "but a round opens when the time to return is over": """
        kill 1; wipe; go 0; campaign 0; go 0; look; close; is active 1
        wait 7; look; close; is forming 2 cause=NodeLost
    """,
    "a done record is written again": """
        finish 0; go 0; wipe; settle; finish 1; settle; is succeeded 1 restarts=0 losses=0
    """,
    "a failure whose round no agent has seen is reported again and charged once": """
        fail 0; turn 0; is forming 2; wipe; settle; is active 2 restarts=1
    """,
    "a worker that fails right after it opens the round when the time to return is over": """
        wipe; go 0; go 1; fail 0; go 0; is active 1; wait 7; go 0; is forming 2 cause=WorkerFailed
        settle; is active 2 members=0,1 restarts=1
    """,
    "an agent that leaves right after it opens no round itself, and is not lost": """
        wipe; go 0; go 1; sigterm 1; go 1; stopped 1; go 1; nokey 1; is active 1; runs 0 1
        settle; is active 2 members=0 losses=0
    """,
    "earlier charges remain, and are not repeated": """
        fail 0; go 0; settle; is active 2 restarts=1; wipe; settle; is active 2 restarts=1
    """,
    "a forming round continues to form": """
        restart; look; close; go 0; is forming 2; wipe; settle; is active 2 members=0,1 restarts=0
    """,
    "a restored store has an older round, and the newer one overwrites it": """
        backup; fail 0; settle; is active 2; restore; is active 1; settle; is active 2 members=0,1 restarts=1
        runs 0 2; runs 1 2
    """,
    "an agent that does not know yet whether etcd was wiped or the job deleted does not stop its workers": """
        wipe; notice 1; turn 1; turn 1; turn 1; turn 1; runs 1 1; nokey 1; go 1; key 1; runs 1 1
    """,
    "nothing is lost if the store is restored to its current state": """
        backup; restore; settle; is active 1 members=0,1; runs 0 1; runs 1 1
    """,
    "a restored store without a done record gets it again": """
        backup; finish 0; go 0; restore; settle; finish 1; settle; is succeeded 1
    """,
    "an agent that stops its workers to join again while etcd is wiped does not give up": """
        expire 1; look; close; is forming 2; notice 1; turn 1; turn 1; runs 1 1   # 2 forms without it: it stops
        wipe; stopped 1; turn 1; turn 1; turn 1; settle; is active 2 members=0,1
    """,
    "nor does the only agent that remembers, which has seen the newer round while it stopped": """
        expire 1; look; close; is forming 2; notice 1; turn 1; turn 1
        go 0; stopped 0; go 0; look; close; is active 2; see 1; turn 1
        kill 0; wipe; stopped 1; settle; is active 3 members=1
    """,
    "a call that was given up before the wipe does not succeed after it": """
        arm 0 LATE; fail 0; turn 0; wipe; land 0; settle; is active 2 restarts=1
    """,
}


@pytest.mark.parametrize("history", WIPED.values(), ids=WIPED)
def test_after_a_wipe(history: str) -> None:
    play(history)


def test_an_agent_without_a_state_begins_the_job_in_a_wiped_store_before_its_watch_shows_the_wipe() -> None:
    made = Play(SpecRecord(min=1, max=2, desired=1))
    made.run("start; turn 0; key 0; wipe; notice 0; turn 0; turn 0; turn 0; turn 0; settle; is active 1 members=0")


def test_after_a_wipe_with_an_operator_the_map_remains_and_its_pods_continue() -> None:
    play("wipe; settle; is active 1 members=0,1 losses=0; runs 0 1; runs 1 1", operator=OPERATOR)


def test_finding_7_new_agents_wait_before_they_begin_at_a_far_higher_round() -> None:
    history = """
        kill 0; kill 1; wipe; operate; operate; go 2; go 3; campaign 2; go 2; look; close; wait 5; close
    """
    made = play(history, operator=OPERATOR)
    assert made.job.state is None
    made.run("wait 2; close; is forming 1001; settle; is active 1001 members=2,3")


def test_a_new_agent_that_leads_after_a_wipe_gives_the_others_their_time_to_return() -> None:
    """It has met no wipe itself: only the state that agent 0 has written back shows that there was one."""
    history = """
        scale 3; wipe; operate; go 0; is active 1
        go 2; campaign 2; go 2; look; close; is active 1; nokey 1
        wait 5; close; is active 1; go 1; key 1; runs 1 1
        wait 2; look; close; is forming 2 cause=NodeJoined; settle; is active 2 members=0,1,2 losses=0
    """
    play(history, most=3, operator=OPERATOR)


def test_a_new_agent_that_began_the_job_again_gives_those_that_remember_it_their_time_to_return() -> None:
    """Its own first round is in etcd when agent 1 writes the newer one over it."""
    history = """
        fail 0; settle; is active 2; kill 0; wipe; start; go 2; campaign 2; go 2; look; close; is forming 1
        go 1; is active 2; look; close; is active 2; wait 5; close; is active 2
        wait 2; look; close; is forming 3 cause=NodeLost
    """
    play(history)


def test_finding_14_a_watch_of_another_store_is_not_trusted() -> None:
    play("backup; fail 0; settle; is active 2; restore; is active 1; go 0; is active 2; settle; is active 2 restarts=1")


def test_finding_15_agents_do_not_begin_a_deleted_job_again() -> None:
    made = play("delete; settle")
    assert [node.outcome for node in made.job.nodes] == [ExitCode.JOB_DELETED] * 2
    assert made.job.store.range("").kvs == ()


def test_a_deletion_after_a_wipe_is_detected() -> None:
    made = play("wipe; settle; is active 1; delete; settle")
    assert [node.outcome for node in made.job.nodes] == [ExitCode.JOB_DELETED] * 2


@pytest.mark.parametrize("before", ["", "wipe; settle"], ids=["", "after a wipe"])
def test_an_agent_that_stops_its_workers_while_the_job_is_deleted_does_not_begin_it_again(before: str) -> None:
    made = play(before)
    made.run("expire 1; look; close; is forming 2; notice 1; turn 1; turn 1; runs 1 1; delete; stopped 1; settle")
    assert [node.outcome for node in made.job.nodes] == [ExitCode.JOB_DELETED, ExitCode.SUPERSEDED]
    assert made.job.store.range("").kvs == ()


def test_an_agent_that_returns_after_the_end_does_not_begin_the_job_again() -> None:
    history = """
        expire 1; look; close; go 0; stopped 0; go 0; look; close; is active 2 members=0
        go 0; finish 0; go 0; look; close; is succeeded 2; go 0
        notice 1; go 1; stopped 1; go 1
    """
    ended = play(history)
    assert [node.outcome for node in ended.job.nodes] == [ExitCode.OK, ExitCode.OK]


def test_an_agent_that_returns_to_a_taken_slot_joins_with_another() -> None:
    play("expire 1; start; turn 2; key 2; notice 1; turn 1; nokey 1; settle; is active 2 members=0,2")


def test_finding_5_a_new_pod_in_the_slot_does_not_hide_the_old_one_that_still_runs() -> None:
    history = """
        replace 1; go 2; key 1; key 2; look; close; is forming 2
        go 0; stopped 0; go 0; look; close; is forming 2
        runs 1 1; go 1; runs 1 1; stopped 1; go 1; nokey 1
        look; close; is active 2 members=0,2 restarts=0
    """
    play(history, operator=OPERATOR)


def test_finding_11_expected_pods_do_not_close_a_round_while_old_members_run() -> None:
    history = """
        kill 1; expire 1; operate; go 2; key 2; look; close; is forming 2
        wait 20; runs 0 1; look
        go 0; runs 0 1; close; is forming 2
    """
    play(history, operator=OPERATOR, failure_grace_s=60)


def test_a_deleted_pod_costs_one_round_even_if_the_others_are_ready_before_the_operator_acts() -> None:
    history = """
        sigterm 1; turn 1; is forming 2 cause=NodeLeft
        go 0; stopped 0; go 0; go 1; stopped 1; go 1; nokey 1; look; close; is forming 2
        wait 0.3; replace 1; look; close; is forming 2
        wait 2; look; close; is forming 2            # its pod starts
        go 2; look; close; is active 2 members=0,2 restarts=0 losses=0
    """
    play(history, operator=OPERATOR)


def test_an_operator_that_does_nothing_delays_the_others_by_one_second_only() -> None:
    history = """
        kill 1; expire 1; look; close; is forming 2 cause=NodeLost
        go 0; stopped 0; go 0; look; close; look; close; is forming 2 losses=1
        wait 1; close; is active 2 members=0 losses=1
    """
    play(history, operator=OPERATOR)


def test_finding_24_a_round_is_not_closed_with_an_old_map() -> None:
    history = """
        restart; look; close; go 0; stopped 0; go 0; go 1; stopped 1; go 1; look
        replace 1; close; is forming 2
        settle; is active 2 members=0,2
    """
    play(history, operator=OPERATOR)


def test_a_late_ready_after_a_newer_one_does_not_evict_a_healthy_node() -> None:
    history = """
        restart; look; close; go 1; stopped 1; arm 1 LATE; turn 1; turn 1   # ready=2 is given up, written again
        go 0; stopped 0; go 0; look; close; is active 2
        go 0; go 1; restart; look; close; go 1; stopped 1; go 1             # ready=3
        land 1; settle; is active 3 losses=0
    """
    play(history)
