"""Ending an endless answer, whatever has become of its connection meanwhile."""

import socket

from elasticjob.streams import CancelToken, Lines


class Answer:
    """What is read of an answer, over a real socket."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection

    def read1(self) -> bytes:
        return self._connection.recv(1024)

    def shutdown(self) -> None:
        self._connection.shutdown(socket.SHUT_RD)


def test_a_stop_ends_the_read_of_an_answer() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(b"a\nb\nrest")
        lines = Lines(Answer(ours))
        told = iter(lines)
        assert [next(told), next(told)] == [b"a", b"b"]
        lines.stop()
        assert list(told) == []


def test_a_stop_that_comes_when_the_connection_was_just_closed_is_no_error() -> None:
    ours, theirs = socket.socketpair()
    with theirs:
        lines, stop = Lines(Answer(ours)), CancelToken()
        with stop.attached(lines):
            ours.close()
            stop.cancel()
    assert stop.is_cancelled
