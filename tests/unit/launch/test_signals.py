"""Signals of the launching process: recorded, waited for, and restored handlers."""

import select
import signal

import pytest

from elasticjob_agent.launch._signals import SignalWaiter


def _readable(waiter: SignalWaiter) -> bool:
    return bool(select.select([waiter.descriptor], [], [], 0)[0])


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_is_recorded_and_makes_the_descriptor_readable_until_the_drain(signum: signal.Signals) -> None:
    with SignalWaiter(stacklevel=2) as waiter:
        assert not _readable(waiter)
        signal.raise_signal(signum)
        assert (_readable(waiter), waiter.first) == (True, signum)
        assert waiter.drain() == 1
        assert not _readable(waiter)


def test_the_first_signal_counts_and_each_is_drained_once() -> None:
    with SignalWaiter(stacklevel=2) as waiter:
        for signum in (signal.SIGTERM, signal.SIGINT, signal.SIGTERM):
            signal.raise_signal(signum)
        assert (waiter.first, waiter.drain(), waiter.drain()) == (signal.SIGTERM, 3, 0)


def test_previous_handlers_are_restored_also_after_an_exception() -> None:
    before = [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)]
    with pytest.raises(ZeroDivisionError), SignalWaiter(stacklevel=2):
        raise ZeroDivisionError
    assert [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)] == before
