"""The backoff after a failed creation of pods, and its end."""

import pytest

from elasticjob_operator.errors import ClusterUnavailable, Forbidden, RetryLater
from elasticjob_operator.model.failed_creation import FailedCreation
from elasticjob_operator.model.slot_pod import PodState, SlotPod
from elasticjob_operator.policy.slots.creation_backoff import (
    MAX_BACKOFF_S,
    after_failure,
    first_error,
    is_paused,
    while_pods_missing,
)
from testing.builders import NOW_S, pod

RECORD = FailedCreation("exceeded quota", 1, NOW_S + 1.0)


def test_each_consecutive_failure_doubles_the_pause_up_to_30_s() -> None:
    record, pauses = None, []
    for _ in range(9):
        record = after_failure(record, Forbidden("exceeded quota"), NOW_S)
        pauses.append(record.retry_at_s - NOW_S)
    assert pauses == [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0, 30.0]
    assert after_failure(FailedCreation("x", 10**6, 0.0), Forbidden("x"), NOW_S).retry_at_s == NOW_S + MAX_BACKOFF_S


def test_the_pause_is_at_least_the_retry_after_of_the_api_server() -> None:
    error = RetryLater("too many requests")
    error.retry_after_s = 3.0
    assert after_failure(None, error, NOW_S).retry_at_s == NOW_S + 3.0
    assert after_failure(FailedCreation("", 6, 0.0), error, NOW_S).retry_at_s == NOW_S + 30.0


def test_the_message_is_that_of_the_last_failure() -> None:
    assert after_failure(RECORD, ClusterUnavailable("no answer"), NOW_S).message == "no answer"


def test_only_an_error_of_the_api_server_is_a_failed_creation() -> None:
    error = Forbidden("quota")
    assert first_error([ValueError("a fault of ours"), error]) is error
    assert first_error([ValueError("a fault of ours")]) is None


@pytest.mark.parametrize(("record", "paused"), [(None, False), (RECORD, True), (FailedCreation("", 1, NOW_S), False)])
def test_creations_pause_until_the_time_in_the_record(record: FailedCreation | None, *, paused: bool) -> None:
    assert is_paused(record, NOW_S) is paused


def test_the_record_is_dropped_when_every_slot_has_its_pod() -> None:
    here, missing = SlotPod("j-0-a", PodState.LIVE, pod(0)), SlotPod("j-1-a", PodState.PENDING_CREATE)
    assert while_pods_missing(RECORD, {0: here, 1: missing}) is RECORD
    assert while_pods_missing(RECORD, {0: here}) is None
    assert while_pods_missing(RECORD, {}) is None
