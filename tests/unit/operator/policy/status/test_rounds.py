"""`status.rounds`: the history of rounds that etcd drops."""

import json
from dataclasses import replace

import pytest

from elasticjob_api.job import status_to_dict
from elasticjob_api.rendezvous_state import Cause, RoundPhase
from elasticjob_api.status import JobStatus, RoundStatus
from elasticjob_operator.model.job_state import JobState
from elasticjob_operator.model.timestamps import to_rfc3339_ms
from elasticjob_operator.policy.status.build import next_status
from elasticjob_operator.policy.status.rounds import MAX_ROUNDS, SLOTS_LIMIT, slots_text, update_rounds
from testing.builders import NOW_S, active, job, members, membership, running, seen, state, view

FIRST = RoundStatus(round=1, start_time="2023-11-14T22:00:00.250Z", nodes=2, workers=4, slots="0-1")
NOW = to_rfc3339_ms(NOW_S)


def test_a_round_that_becomes_active_is_recorded_with_its_cause_and_its_nodes() -> None:
    at = running(0, 2, state=active(0, 2, round=2, cause=Cause.NODE_LOST, message="pod j-1-a was lost"))
    (made,) = update_rounds((), at, NOW_S + 0.25)
    assert made == RoundStatus(
        round=2,
        start_time=to_rfc3339_ms(NOW_S + 0.25),
        cause="NodeLost",
        message="pod j-1-a was lost",
        nodes=2,
        workers=4,
        slots="0,2",
    )


def test_a_round_is_recorded_with_the_kept_step_that_it_restores() -> None:
    (made,) = update_rounds((), running(0, 2, state=replace(active(0, 2, round=2), restore="1.abc.120.4")), NOW_S)
    assert made.restored_step == 120
    (newer,) = update_rounds((), running(0, 2, state=replace(active(0, 2, round=2), restore="of a newer agent")), NOW_S)
    assert newer.restored_step is None


@pytest.mark.parametrize(
    ("cause", "restored"), [(Cause.RESTORE_FAILED, None), (Cause.WORKER_FAILED, 120)], ids=["failed", "restored"]
)
def test_a_round_whose_restore_failed_has_no_restored_step(cause: Cause, restored: int | None) -> None:
    known = (replace(FIRST, restored_step=120),)
    forming = view(0, 1, state=replace(state(RoundPhase.FORMING, round=2), cause=cause))
    for at in (forming, running(0, 1, state=active(0, 1, round=2, cause=cause))):
        assert update_rounds(known, at, NOW_S)[0].restored_step == restored


def test_a_round_ends_once_when_the_next_one_forms() -> None:
    at = view(0, 1, state=state(RoundPhase.FORMING, round=2))
    (ended,) = update_rounds((FIRST,), at, NOW_S)
    assert ended.end_time == NOW
    assert update_rounds((ended,), at, NOW_S + 5) == (ended,)


def test_a_round_ends_also_when_the_next_one_is_already_active() -> None:
    one, two = update_rounds((FIRST,), running(0, state=active(0, round=2)), NOW_S)
    assert (one.end_time, two.round, two.end_time) == (NOW, 2, "")


def test_a_round_that_began_and_succeeded_between_two_observations_is_recorded_as_ended() -> None:
    succeeded = replace(active(0, 2, round=2), phase=RoundPhase.SUCCEEDED)
    at = view(0, 2, state=succeeded, membership=membership(0, 2, round_=2))
    one, two = update_rounds((FIRST,), at, NOW_S)
    assert one.end_time == NOW
    assert two == RoundStatus(round=2, start_time=NOW, end_time=NOW, nodes=2, workers=4, slots="0,2")
    assert update_rounds((one, two), at, NOW_S + 5) == (one, two)


def test_a_round_that_began_and_failed_between_two_observations_is_recorded_with_its_nodes() -> None:
    at = view(0, 2, state=state(RoundPhase.FORMING, round=3), membership=membership(0, 2, round_=2))
    _, two = update_rounds((FIRST,), at, NOW_S)
    assert (two.round, two.nodes, two.workers, two.slots) == (2, 2, 0, "0,2")


def test_an_active_round_that_is_known_changes_nothing() -> None:
    assert update_rounds((FIRST,), running(0, 1), NOW_S) == (FIRST,)


def test_a_wipe_of_etcd_ends_no_round() -> None:
    assert update_rounds((FIRST,), view(0, 1), NOW_S) == (FIRST,)


def test_a_round_that_is_written_back_after_a_wipe_is_not_recorded_again() -> None:
    ended = update_rounds((FIRST,), view(0, 1, state=state(RoundPhase.FORMING, round=2)), NOW_S)
    assert update_rounds(ended, running(0, 1), NOW_S + 1) == ended


def test_only_the_last_rounds_are_kept() -> None:
    rounds: tuple[RoundStatus, ...] = ()
    for number in range(1, MAX_ROUNDS + 10):
        rounds = update_rounds(rounds, running(0, state=active(0, round=number)), NOW_S + number)
    assert (len(rounds), rounds[0].round, rounds[-1].round) == (MAX_ROUNDS, 10, MAX_ROUNDS + 9)


def test_the_rounds_of_a_status_take_160_kib_at_most() -> None:
    rounds: tuple[RoundStatus, ...] = ()
    for number in range(1, MAX_ROUNDS + 1):
        of = replace(active(*range(0, 2000, 2), round=number), cause=Cause.WORKER_FAILED, message="é" * 1000)
        rounds = update_rounds(rounds, running(0, state=of), NOW_S + number)
    text = json.dumps(status_to_dict(JobStatus(rounds=rounds))["rounds"])
    assert 128 << 10 < len(text) < 160 << 10, "each é is an escape of six bytes"


def test_a_long_list_of_slots_is_truncated_between_two_slots() -> None:
    text = slots_text(members(*range(0, 2000, 2)))
    assert len(text) <= SLOTS_LIMIT + 4
    assert text.endswith(",...")


def test_the_status_of_a_job_that_ended_has_the_end_of_its_last_round() -> None:
    before = JobStatus(rounds=(FIRST,))
    at = view(0, 1, state=state(RoundPhase.SUCCEEDED), membership=membership(0, 1))
    assert next_status(seen(job(status=before), at)).rounds[-1].end_time == NOW


def test_rounds_between_two_status_writes_are_not_lost() -> None:
    job_state = JobState(rounds=update_rounds((FIRST,), running(0, state=active(0, round=2)), NOW_S - 1))
    at = running(0, 1, state=active(0, 1, round=3))
    status = next_status(seen(job(status=JobStatus(rounds=(FIRST,))), at, job_state=job_state))
    assert [each.round for each in status.rounds] == [1, 2, 3]
