"""Signals of the launching process: noted, waited for, and handed back."""

import select
import signal

import pytest

from elasticjob_agent.launch._signals import SignalWaiter


def _readable(interrupts: SignalWaiter) -> bool:
    return bool(select.select([interrupts.descriptor], [], [], 0)[0])


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_is_noted_and_makes_the_descriptor_readable_until_taken(signum: signal.Signals) -> None:
    with SignalWaiter(stacklevel=2) as interrupts:
        assert not _readable(interrupts)
        signal.raise_signal(signum)
        assert (_readable(interrupts), interrupts.first) == (True, signum)
        assert interrupts.drain() == 1
        assert not _readable(interrupts)


def test_the_first_signal_counts_and_each_is_taken_once() -> None:
    with SignalWaiter(stacklevel=2) as interrupts:
        for signum in (signal.SIGTERM, signal.SIGINT, signal.SIGTERM):
            signal.raise_signal(signum)
        assert (interrupts.first, interrupts.drain(), interrupts.drain()) == (signal.SIGTERM, 3, 0)


def test_previous_handlers_are_back_also_after_an_exception() -> None:
    before = [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)]
    with pytest.raises(ZeroDivisionError), SignalWaiter(stacklevel=2):
        raise ZeroDivisionError
    assert [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)] == before
