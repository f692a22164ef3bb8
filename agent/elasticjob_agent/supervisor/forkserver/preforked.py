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
_CREDENTIALS_BYTES = socket.CMSG_SPACE(struct.calcsize("3i"))
_LOST = "lost "
HAS_ENDED = "it has ended"
_NOT_UNDERSTOOD = "its answer was not understood"
_STAGES = frozenset({"cpus", "cwd"})
"""The steps of a preforked worker whose error is one of its command, which a second start would meet, too."""
_MAX_ERRNO = 4095
"""Of the kernel: some of its file systems have numbers that `errno` does not list."""


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
            _, ancillary, _, _ = link.recvmsg(100, _CREDENTIALS_BYTES)
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


def read_failure(fd: int, *, has_command: bool) -> bytes:
    """Return the failure that the worker reports on this socket, empty if it runs its command."""
    with _socket_of(fd) as link:
        with suppress(OSError):
            link.shutdown(socket.SHUT_RD)  # an `ok` that comes later fails, and then the worker ends
        answers = list(_messages(link))
    if not has_command:
        return (_LOST + (_NOT_UNDERSTOOD if answers else HAS_ENDED)).encode("ascii")
    # Code of the user may have written before the worker did. A command that runs must not be started again.
    return b"" if b"ok" in answers else next(filter(None, answers), (_LOST + HAS_ENDED).encode("ascii"))


def _messages(link: socket.socket) -> "Iterator[bytes]":
    """Yield what has been sent on this socket."""
    # Never wait: a zygote that was stopped as it forked keeps the socket of a dead worker open.
    with suppress(ConnectionError, BlockingIOError):  # it died with a message of ours unread, or without an answer
        while True:
            message, ancillary, _, _ = link.recvmsg(_REPORT_BYTES, _CREDENTIALS_BYTES, socket.MSG_DONTWAIT)
            if not ancillary:  # the end; an empty message has its sender
                return
            yield message


def failure_message(number: int, failure: bytes, *, is_preforked: bool) -> "tuple[object, ...]":
    """Return the message to the agent about a worker that has ended before it ran its command."""
    text = failure.decode("ascii", "replace")
    if text.startswith(_LOST):
        return "lost", number, text[len(_LOST) :]
    code, _, stage = text.partition(" ")
    is_stage = stage in _STAGES if is_preforked else stage.isidentifier()
    if not (is_stage and code.isdecimal() and 0 < int(code) <= _MAX_ERRNO):
        return "lost", number, _NOT_UNDERSTOOD  # of another process that has the socket, too, or of an import
    return "failed", number, code, stage
