"""Descriptors of a worker: files and pipes for its sinks, its latch, and the memory file with its command.

The agent opens every sink itself and sends the descriptors along. So a file that cannot be opened is an exact error
before the worker exists, and the fork server knows nothing of sinks.
"""

import contextlib
import errno
import fcntl
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import assert_never

from elasticjob_agent.supervisor import forkserver_protocol
from elasticjob_agent.supervisor.errors import StartError
from elasticjob_agent.supervisor.latch import Latch
from elasticjob_agent.supervisor.process_types import Command, FileSink, Inherit, LineSink, Null, Sink
from elasticjob_agent.supervisor.stream_pump import PIPE_BYTES, FileCopy, LinePump, open_log


@dataclass(slots=True)
class OpenStreams:
    """Descriptors and pumps of one worker."""

    fds: list[int] = field(default_factory=list)
    """Its command, stdout, stderr, latch and others, as the fork server gets them."""
    latch: Latch | None = None
    """The agent's side of the latch; it outlives the descriptors."""
    pumps: list[LinePump] = field(default_factory=list)
    """The pumps of its teed streams; they outlive the descriptors."""


@contextlib.contextmanager
def open_streams(command: Command) -> Iterator[OpenStreams]:
    """Open all files and pipes of this command; close the descriptors on leaving.

    A pump ends by itself when the last writer of its pipe is gone, and so also if no worker was started.

    Raises:
        StartError: a file cannot be opened, no descriptor is left, or no process can have such a command.
    """
    content = forkserver_protocol.encode(command)
    streams = OpenStreams()
    try:
        _open_all(command, content, streams)
        yield streams
    except BaseException:
        if streams.latch:
            streams.latch.close()
        raise
    finally:
        for fd in streams.fds:
            os.close(fd)


def _open_all(command: Command, content: bytes, streams: OpenStreams) -> None:
    try:
        streams.fds.append(os.memfd_create("command"))
        rest = memoryview(content)
        while rest:  # a limit of file sizes (RLIMIT_FSIZE) ends a write early
            rest = rest[os.write(streams.fds[0], rest) :]
        for sink, standard_fd in ((command.stdout, 1), (command.stderr, 2)):
            fd, pump = _open(sink, standard_fd)
            streams.fds.append(fd)
            streams.pumps += [pump] if pump else []
        streams.latch = Latch()
        streams.fds.append(os.dup(streams.latch.fd))
        for fd in command.fds:
            streams.fds.append(os.dup(fd))
    except OSError as error:
        what = error.filename or "its streams"
        failure = StartError(f"{command.name}: not started: cannot open {what}: {error.strerror}")
        failure.errno = error.errno or 0
        raise failure from error


def _open(sink: Sink, standard_fd: int) -> tuple[int, LinePump | None]:
    match sink:
        case Inherit():
            return _dup_own(standard_fd), None
        case Null():
            return os.open(os.devnull, os.O_WRONLY), None
        case FileSink(path):
            fd = open_log(path)
            os.set_blocking(fd, True)  # the worker may wait for the reader of a FIFO
            return fd, None
        case LineSink():
            return _open_pipe(sink)
    assert_never(sink)


def _dup_own(standard_fd: int) -> int:
    try:
        return os.dup(standard_fd)
    except OSError as error:
        if error.errno != errno.EBADF:
            raise
        return os.open(os.devnull, os.O_WRONLY)  # ours may be closed, as in a daemon: the worker still runs


def _open_pipe(sink: LineSink) -> tuple[int, LinePump]:
    copy = FileCopy(sink.path) if sink.path else None
    try:
        read_end, write_end = os.pipe()
    except OSError:
        if copy:
            copy.close()
        raise
    os.set_blocking(read_end, False)  # the two ends do not share this flag: the worker's still blocks
    with contextlib.suppress(OSError):  # the user's share of pipe memory is used up: 64 KiB suffice, but are slower
        fcntl.fcntl(write_end, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
    return write_end, LinePump(read_end, sink, copy)
