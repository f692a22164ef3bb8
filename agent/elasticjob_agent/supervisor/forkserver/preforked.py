"""Messages on the socket of a worker that a zygote has forked ahead: the fork server's end.

    worker → fork server   ready                              with its pid, by the kernel
    fork server → worker   start (+ descriptors: command, stdout, stderr, others)
    worker → fork server   ok · lost REASON… · ERRNO STAGE    nothing of the user's has run before `ok`

The end of the socket without an answer is the end of the worker.
"""

import socket
import struct
from array import array
from contextlib import contextmanager, suppress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_REPORT_BYTES = 1000
_LOST = "lost "
HAS_ENDED = "it has ended"


@contextmanager
def _socket_of(fd: int) -> "Iterator[socket.socket]":
    """Yield this descriptor as a socket, which does not close it."""
    link = socket.socket(fileno=fd)
    try:
        yield link
    finally:
        link.detach()


def sender(fd: int) -> int:
    """Return the pid of the process that sent the message on this socket, from the kernel; 0 if there is none."""
    try:
        with _socket_of(fd) as link:
            _, ancillary, _, _ = link.recvmsg(100, socket.CMSG_SPACE(struct.calcsize("3i")))
    except ConnectionError:
        return 0
    for level, kind, data in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_CREDENTIALS):
            return int(struct.unpack("3i", data)[0])
    return 0


def send_command(fd: int, fds: "list[int]") -> None:
    """Send the descriptors of a command to the worker; the end of a dead one is reported when it is reaped."""
    with suppress(ConnectionError), _socket_of(fd) as link:
        link.sendmsg([b"start"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array("i", fds))])


def read_failure(fd: int) -> bytes:
    """Return the failure that the worker reports on this socket, empty if it runs its command."""
    try:
        # Never wait: a zygote that was stopped as it forked keeps the socket of a dead worker open.
        with _socket_of(fd) as link:
            report = link.recv(_REPORT_BYTES, socket.MSG_DONTWAIT)
    except (ConnectionError, BlockingIOError):  # it died with a message of ours unread, or without an answer
        report = b""
    return b"" if report == b"ok" else report or (_LOST + HAS_ENDED).encode("ascii")


def failure_message(number: int, failure: bytes) -> "tuple[object, ...]":
    """Return the message to the agent about a worker that has ended before it ran its command."""
    text = failure.decode("ascii", "replace")
    if text.startswith(_LOST):
        return "lost", number, text[len(_LOST) :]
    code, _, stage = text.partition(" ")
    if not (code.isdecimal() and stage.isidentifier()):  # of another process that has the socket, too
        return "lost", number, "its answer was not understood"
    return "failed", number, code, stage
