"""A latch holds a worker until the agent opens it, and its descriptor is closed once."""

import os

import pytest

from elasticjob_agent.supervisor.latch import Latch


def test_an_open_latch_lets_one_reader_go_on() -> None:
    latch = Latch()
    theirs = os.dup(latch.fd)
    os.set_blocking(theirs, False)
    with pytest.raises(BlockingIOError):
        os.read(theirs, 8)
    latch.open()
    assert os.read(theirs, 8)
    os.close(theirs)


def test_a_closed_latch_stays_shut() -> None:
    latch = Latch()
    theirs = os.dup(latch.fd)
    os.set_blocking(theirs, False)
    latch.close()
    latch.open()
    with pytest.raises(BlockingIOError):
        os.read(theirs, 8)
    os.close(theirs)


def test_opening_and_closing_leave_no_descriptor() -> None:
    latch = Latch()
    fd = latch.fd
    latch.open()
    latch.close()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(fd)
