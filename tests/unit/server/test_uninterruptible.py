"""Workers that hang in the kernel: a worker counts only if it hangs longer than the limit without a break."""

import os

from elasticjob_agent.server._uninterruptible import UninterruptibleMonitor, is_uninterruptible


class Now:
    """A clock, and the pids that hang."""

    def __init__(self) -> None:
        self.s = 0.0
        self.hanging: set[int] = set()

    def watch(self, limit_s: float) -> UninterruptibleMonitor:
        return UninterruptibleMonitor(limit_s, clock=lambda: self.s, is_uninterruptible=self.hanging.__contains__)


def test_b_004_44_process_that_hangs_beyond_the_limit_is_stuck() -> None:
    now = Now()
    watch = now.watch(10)
    now.hanging = {7}
    watch = now.watch(10)
    assert watch.stuck([7, 8]) == []
    now.s = 9.9
    assert watch.stuck([7, 8]) == []
    now.s = 10
    assert watch.stuck([7, 8]) == [7]


def test_b_004_44_a_break_in_between_restarts_the_count() -> None:
    now = Now()
    now.hanging = {7}
    watch = now.watch(10)
    for now.s, hangs, stuck in ((0, True, []), (8, False, []), (9, True, []), (18, True, []), (19, True, [7])):
        now.hanging.clear()
        now.hanging |= {7} if hangs else set()
        assert watch.stuck([7]) == stuck


def test_a_running_process_and_an_ended_one_do_not_hang() -> None:
    assert not is_uninterruptible(os.getpid())
    assert not is_uninterruptible(2**22 + 1)
