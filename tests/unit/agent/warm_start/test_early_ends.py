"""After two warm starts in a row that ended early, the workers of an agent start cold."""

import signal

import pytest

from elasticjob_agent.warm_start.early_ends import EARLY_S, EarlyEnds, WorkerEnd, is_early

_CRASHES = (signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGILL)
_SENT_BY_OTHERS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
_CRASH = WorkerEnd(code=-signal.SIGSEGV, lived_s=1000.0, has_progress=True)
_LATE = WorkerEnd(code=1, lived_s=EARLY_S, has_progress=False)


@pytest.mark.parametrize(
    "end",
    [
        *(WorkerEnd(code=-number, lived_s=1000.0, has_progress=True) for number in _CRASHES),
        WorkerEnd(code=1, lived_s=0.1, has_progress=False),
    ],
)
def test_a_crash_at_any_time_is_early_and_a_failure_before_any_progress(end: WorkerEnd) -> None:
    assert is_early(end)


@pytest.mark.parametrize(
    "end",
    [
        *(WorkerEnd(code=-number, lived_s=0.1, has_progress=False) for number in _SENT_BY_OTHERS),
        WorkerEnd(code=1, lived_s=0.1, has_progress=True),
        WorkerEnd(code=1, lived_s=EARLY_S, has_progress=False),
    ],
)
def test_a_signal_of_others_and_a_later_failure_are_not_early(end: WorkerEnd) -> None:
    assert not is_early(end)


def _run(*starts: tuple[bool, list[WorkerEnd]]) -> bool:
    ends = EarlyEnds()
    for is_warm, failures in starts:
        ends.start(is_warm=is_warm)
        for failure in failures:
            ends.record(failure)
    return ends.are_too_many


def test_two_early_ends_in_a_row_are_too_many() -> None:
    assert not _run((True, [_CRASH]))
    assert _run((True, [_CRASH]), (True, [_CRASH]))


def test_all_failures_of_one_start_count_once() -> None:
    assert not _run((True, [_CRASH, _CRASH, _CRASH]))


def test_only_the_first_failure_of_a_start_counts() -> None:
    assert not _run((True, [_CRASH]), (True, [_LATE, _CRASH]))


def test_a_later_end_between_them_forgets_the_first() -> None:
    assert not _run((True, [_CRASH]), (True, [_LATE]), (True, [_CRASH]))


def test_a_start_that_was_stopped_changes_nothing() -> None:
    assert _run((True, [_CRASH]), (True, []), (True, [_CRASH]))


def test_an_end_of_a_cold_start_does_not_count() -> None:
    assert not _run((False, [_CRASH]), (False, [_CRASH]), (True, [_CRASH]))
