"""A process that waits for a processor is late; one that sleeps, is stopped or runs without an answer hangs."""

import os

import pytest

from elasticjob_agent.supervisor.answer_time import AnswerMeter, SchedulerSample, read_sample

_BEGIN = SchedulerSample(100.0, "S", run_s=5.0, waited_s=7.0)


def _later(passed_s: float, state: str, *, ran_s: float = 0.0, waited_s: float = 0.0) -> SchedulerSample:
    return SchedulerSample(100.0 + passed_s, state, 5.0 + ran_s, 7.0 + waited_s)


@pytest.mark.parametrize(
    ("now", "left_s", "is_busy"),
    [
        (_later(2.0, "S"), 0.0, False),
        (_later(2.0, "T"), 0.0, False),
        (_later(2.0, "R", ran_s=2.0), 0.0, False),
        (_later(2.0, "D"), 0.0, True),  # it waits for a disk
        (_later(2.0, "R"), 2.0, True),  # the kernel has not counted its wait yet
        (_later(2.0, "R", ran_s=0.5, waited_s=1.5), 1.5, True),
        (_later(2.0, "S", ran_s=0.5, waited_s=1.5), 1.5, True),
        (_later(2.0, "S", waited_s=9.0), 2.0, True),  # most of the wait was before the question
        (_later(19.0, "R"), 1.0, True),
        (_later(20.0, "R"), 0.0, True),
    ],
)
def test_only_the_time_without_a_wait_for_a_processor_counts(
    now: SchedulerSample, left_s: float, *, is_busy: bool
) -> None:
    time = AnswerMeter(_BEGIN, within_s=2.0)
    assert time.left_s(now) == pytest.approx(left_s)
    assert time.is_busy is is_busy


def test_the_times_between_all_samples_count() -> None:
    time = AnswerMeter(_BEGIN, within_s=2.0)
    assert time.left_s(_later(1.0, "S")) == pytest.approx(1.0)
    assert time.left_s(_later(3.0, "R")) == pytest.approx(1.0)
    assert time.left_s(_later(4.0, "S", waited_s=2.0)) == pytest.approx(1.0)
    assert time.left_s(_later(5.0, "S", waited_s=2.0)) == pytest.approx(0.0)


def test_all_of_the_time_counts_where_the_kernel_does_not_count() -> None:
    time = AnswerMeter(SchedulerSample(100.0), within_s=2.0)
    assert time.left_s(SchedulerSample(102.0)) == pytest.approx(0.0)
    assert not time.is_busy


def test_a_sample_has_what_the_kernel_counts() -> None:
    sample = read_sample(os.getpid())
    assert sample.state == "R"
    assert sample.run_s > 0


def test_a_process_that_has_ended_has_no_counts() -> None:
    assert read_sample(0).state == ""
