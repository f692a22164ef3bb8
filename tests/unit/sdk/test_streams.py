"""The end of an endless response, in any state of its connection."""

import socket

from elasticjob.streams import CancelToken, Lines


class Answer:
    """The part of a response that is read, over a real socket."""

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
        iterator = iter(lines)
        assert [next(iterator), next(iterator)] == [b"a", b"b"]
        lines.stop()
        assert list(iterator) == []


def test_a_stop_after_the_connection_closed_is_not_an_error() -> None:
    ours, theirs = socket.socketpair()
    with theirs:
        lines, stop = Lines(Answer(ours)), CancelToken()
        with stop.attached(lines):
            ours.close()
            stop.cancel()
    assert stop.is_cancelled
