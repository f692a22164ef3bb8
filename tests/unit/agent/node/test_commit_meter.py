"""The times of a committed step, by clocks of the test."""

from elasticjob_agent.node.commit_meter import CommitMeter
from elasticjob_api.kept_steps import KeptStep, Lineage

LINEAGE = Lineage(1, "a" * 8)
ONE, TWO = KeptStep(LINEAGE, 1, 1), KeptStep(LINEAGE, 2, 1)


class Clock:
    """A clock that the test sets."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def times(self) -> CommitMeter:
        return CommitMeter(clock=lambda: self.now_s, wall_ns=lambda: int(self.now_s * 10**9))


def test_a_step_is_copied_from_its_first_part_here_to_its_commit() -> None:
    clock = Clock()
    times = clock.times()
    times.note_holdings({})
    times.note_holdings({ONE: {0}})
    clock.now_s += 3
    times.note_holdings({ONE: {0, 1}, TWO: {0}})
    clock.now_s += 4
    times.note_committed(ONE)
    assert (times.copy_s, times.committed_ns) == (7.0, 107 * 10**9)
    clock.now_s += 1
    times.note_committed(ONE)
    assert (times.copy_s, times.committed_ns) == (7.0, 107 * 10**9)
    times.note_committed(TWO)
    assert (times.copy_s, times.committed_ns) == (5.0, 108 * 10**9)


def test_a_step_that_was_here_before_the_agent_has_no_time_of_its_copy() -> None:
    clock = Clock()
    times = clock.times()
    times.note_holdings({ONE: {0}})
    clock.now_s += 3
    times.note_holdings({ONE: {0}, TWO: {0}})
    times.note_committed(ONE)
    assert (times.copy_s, times.committed_ns) == (None, 103 * 10**9)
    clock.now_s += 2
    times.note_committed(TWO)
    assert times.copy_s == 2.0


def test_a_committed_step_that_only_others_hold_has_no_time_of_its_copy_here() -> None:
    times = Clock().times()
    times.note_holdings({})
    times.note_committed(ONE)
    assert (times.copy_s, times.committed_ns) == (None, 100 * 10**9)


def test_nothing_is_committed_at_first() -> None:
    times = Clock().times()
    times.note_committed(None)
    assert (times.copy_s, times.committed_ns) == (None, 0)
