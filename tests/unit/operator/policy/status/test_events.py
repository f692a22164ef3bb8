"""The events of a change from one status to the next, each written once."""

from dataclasses import replace
from typing import Any

import pytest

from elasticjob_api.constants import ConditionType, EventReason
from elasticjob_api.status import JobStatus, KeepStatus, LastFailure, RoundStatus
from elasticjob_operator.policy.status.events import events
from testing.builders import NOW, ago, condition

E = EventReason
RUNNING = JobStatus(
    start_time=ago(60), desired_replicas=2, ready_replicas=2, world_size=4, rendezvous_round=1,
    last_rendezvous_time=ago(50), conditions=(condition("QuorumReached"), condition("Running")),
)  # fmt: skip
WAITING = condition("Running", "False")
SUSPENDED = replace(RUNNING, start_time="", ready_replicas=0, conditions=(condition("Suspended"), WAITING))
FAILURE = LastFailure(time=ago(1), round=1, pod_name="j-1-a", rank=3, local_rank=1, exit_code=3, message="boom")


LOSS = replace(FAILURE, reason="NodeLost", message="pod j-1-a on node-1 was lost: its agent's lease in etcd expired")


def reasons_of(before: JobStatus, after: JobStatus) -> list[EventReason | ConditionType]:
    return [event.reason for event in events(before, after)]


def changed(**fields: Any) -> JobStatus:
    return replace(RUNNING, **fields)


@pytest.mark.parametrize("status", [JobStatus(), RUNNING, SUSPENDED])
def test_an_unchanged_status_has_no_events(status: JobStatus) -> None:
    assert reasons_of(status, status) == []


def test_the_events_of_a_start_are_in_order() -> None:
    started = JobStatus(start_time=NOW, desired_replicas=2, conditions=(WAITING,))
    assert reasons_of(JobStatus(), started) == [E.CREATED]
    assert reasons_of(started, RUNNING) == [E.QUORUM_REACHED, E.RENDEZVOUS_COMPLETED]
    assert reasons_of(JobStatus(), RUNNING) == [E.CREATED, E.QUORUM_REACHED, E.RENDEZVOUS_COMPLETED]


@pytest.mark.parametrize(
    ("fields", "reasons"),
    [
        ({"desired_replicas": 3}, [E.SCALED_UP]),
        ({"desired_replicas": 1}, [E.SCALED_DOWN]),
        ({"restarts": 1}, [E.RESTARTING]),
        ({"node_losses": 1}, [E.NODE_LOST]),
        ({"last_failure": FAILURE}, [E.WORKER_FAILED]),
        ({"last_failure": FAILURE, "restarts": 1}, [E.WORKER_FAILED, E.RESTARTING]),
        ({"rendezvous_round": 2, "last_rendezvous_time": NOW}, [E.RENDEZVOUS_COMPLETED]),
        ({"conditions": (condition("Complete"),)}, [E.SUCCEEDED]),
        ({"conditions": (condition("Failed"),)}, [E.FAILED]),
        ({"conditions": (condition("Suspended"),), "start_time": ""}, [E.SUSPENDED]),
        ({"conditions": (condition("RendezvousUnavailable"),)}, ["RendezvousUnavailable"]),
        ({"conditions": (condition("Stalled"),)}, [E.STALLED]),
        ({"conditions": (condition("KeepDegraded"),)}, [E.KEEP_DEGRADED]),
        ({"conditions": (condition("KeepDegraded", reason="KeepTooSmall"),)}, [E.KEEP_TOO_SMALL]),
        (
            {
                "conditions": (condition("KeepDegraded", reason="PersistFailed"),),
                "keep": KeepStatus(persist_error="the disk is full"),
            },
            [E.PERSIST_FAILED],
        ),
        ({"last_failure": LOSS, "node_losses": 1}, [E.NODE_LOST]),
        ({"replicas": 5, "terminating_replicas": 1, "master_pod": "x"}, []),
    ],
)  # fmt: skip
def test_a_change_has_its_event(fields: dict[str, Any], reasons: list[EventReason]) -> None:
    assert reasons_of(RUNNING, changed(**fields)) == reasons


def test_a_step_that_cannot_be_persisted_has_one_event_until_one_was() -> None:
    failed = [changed(keep=KeepStatus(persist_error=why)) for why in ("the disk is full", "no permission")]
    assert reasons_of(changed(), failed[0]) == [E.PERSIST_FAILED]
    assert reasons_of(failed[0], failed[1]) == []
    assert reasons_of(failed[1], changed(keep=KeepStatus(persisted_step=3))) == []
    [event] = events(changed(), failed[0])
    assert (event.message, event.warning) == ("the disk is full", True)


def test_trouble_with_the_memory_has_an_event_also_after_trouble_with_the_disk() -> None:
    disk, memory, again = (
        changed(conditions=(condition("KeepDegraded", reason=reason),))
        for reason in ("PersistFailed", "NodesDegraded", "KeepTooSmall")
    )
    assert reasons_of(disk, memory) == [E.KEEP_DEGRADED]
    assert reasons_of(memory, disk) == []
    assert reasons_of(memory, again) == []


@pytest.mark.parametrize(
    ("status", "reason"),
    [("True", "PersistUnreadable"), ("False", "NotRunning")],
)
def test_a_job_that_begins_to_wait_or_lost_its_last_step_has_an_event_though_writes_failed_before(
    status: str, reason: str
) -> None:
    failed = changed(keep=KeepStatus(persist_error="no permission"))
    at = (condition("KeepDegraded", status=status, reason=reason),)
    news = changed(keep=KeepStatus(persist_error="this is news"), conditions=at)
    assert E.PERSIST_FAILED in reasons_of(failed, news)
    assert E.PERSIST_FAILED not in reasons_of(news, news)
    assert E.PERSIST_FAILED not in reasons_of(failed, replace(failed, conditions=at))


def test_a_resumed_job_is_not_created_again() -> None:
    assert reasons_of(SUSPENDED, replace(SUSPENDED, start_time=NOW, conditions=())) == [E.RESUMED]


@pytest.mark.parametrize(("name", "reason"), [("Complete", E.SUCCEEDED), ("Failed", E.FAILED)])
def test_a_suspended_job_that_ends_was_not_resumed(name: str, reason: EventReason) -> None:
    ended = replace(SUSPENDED, start_time=NOW, completion_time=NOW, conditions=(condition(name),))
    assert reasons_of(SUSPENDED, ended) == [reason]


def test_a_job_that_is_created_suspended_is_created_once() -> None:
    created = replace(SUSPENDED, rendezvous_round=0, desired_replicas=1)
    resumed = replace(created, start_time=NOW, conditions=(WAITING,))
    assert reasons_of(JobStatus(), created) == [E.CREATED]
    assert reasons_of(created, resumed) == [E.RESUMED]
    (event,) = events(created, resumed)
    assert event.message == "the job resumes with 1 node"


def test_a_lost_node_is_named_in_its_event() -> None:
    (event,) = events(RUNNING, changed(last_failure=LOSS, node_losses=2))
    assert event.message == f"{LOSS.message} (node loss 2 of the job, not counted against maxRestarts)"


def test_the_event_of_a_round_has_its_cause() -> None:
    rounds = (RoundStatus(round=2, start_time=NOW, message="restart 7 was requested"),)
    (event,) = events(RUNNING, changed(rendezvous_round=2, last_rendezvous_time=NOW, rounds=rounds))
    assert event.message == "round 2: 2 nodes, 4 workers; cause: restart 7 was requested"
    (event,) = events(RUNNING, changed(rendezvous_round=3, last_rendezvous_time=NOW, rounds=rounds))
    assert event.message == "round 3: 2 nodes, 4 workers"


@pytest.mark.parametrize(
    ("keep", "number", "restored", "words"),
    [
        (KeepStatus(), 2, 120, "; kept step 120 is to be restored; cause: x"),
        (KeepStatus(), 1, 120, "; kept step 120 is to be restored; cause: x"),
        (KeepStatus(), 2, None, "; no kept step was restored; cause: x"),
        (KeepStatus(), 1, None, "; cause: x"),
        (None, 2, None, "; cause: x"),
    ],
)
def test_the_event_of_a_round_names_the_kept_step(
    keep: KeepStatus | None, number: int, restored: int | None, words: str
) -> None:
    rounds = (RoundStatus(round=number, start_time=NOW, message="x", restored_step=restored),)
    after = changed(rendezvous_round=number, last_rendezvous_time=NOW, rounds=rounds, keep=keep)
    (event,) = events(RUNNING, after)
    assert event.message == f"round {number}: 2 nodes, 4 workers{words}"


def test_the_first_size_is_no_scaling() -> None:
    assert reasons_of(JobStatus(), JobStatus(desired_replicas=2)) == []


def test_a_rejected_manifest_has_a_warning_with_the_message() -> None:
    refused = condition("Accepted", "False", "InvalidSpec", message="spec.replicas: is 0")
    (event,) = events(JobStatus(), JobStatus(conditions=(refused,)))
    assert (event.reason, event.message, event.warning) == (E.INVALID_SPEC, "spec.replicas: is 0", True)


def test_a_rejection_for_another_reason_has_another_event() -> None:
    first = JobStatus(conditions=(condition("Accepted", "False", message="a"),))
    second = JobStatus(conditions=(condition("Accepted", "False", message="b"),))
    assert (reasons_of(first, first), reasons_of(first, second)) == ([], [E.INVALID_SPEC])


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({}, "rank 3 on j-1-a exited with 3 in round 1: boom"),
        ({"message": ""}, "rank 3 on j-1-a exited with 3 in round 1"),
        ({"signal": "SIGKILL"}, "rank 3 on j-1-a was killed by SIGKILL in round 1: boom"),
    ],
)
def test_the_event_of_a_failed_worker_has_its_rank_pod_and_exit(fields: dict[str, Any], message: str) -> None:
    (event,) = events(RUNNING, changed(last_failure=replace(FAILURE, **fields)))
    assert (event.message, event.warning) == (message, True)


def test_the_event_of_a_failed_job_has_reason_and_cause() -> None:
    failed = condition("Failed", reason="DeadlineExceeded", message="too long")
    (event,) = events(RUNNING, changed(conditions=(failed,)))
    assert (event.message, event.warning) == ("DeadlineExceeded: too long", True)
