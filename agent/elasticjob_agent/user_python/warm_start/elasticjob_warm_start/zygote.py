"""The zygote: an interpreter with the worker's very own command line, stopped before its script, that forks workers.

It has one socket of the agent, which keeps message boundaries. The messages are JSON.

    agent → zygote    {"modules", "folders", "denied", …} in a memory file  once: what to import,
                      and the memory file of changed_variables.py
                      {"fork": true} + sockets                              fork a worker for each, which waits on it
                      {"fork": true, "check": true} + sockets               the same, if no file has changed
                      {"exit": true}                                        run the exit functions of the imports, end
    zygote → agent    {"report": …} in a memory file                        once: what the imports did
                      {"forked": true}                                      in the order of the requests
                      {"failed": REASON}                                    the same, but not all could be forked
                      {"stale": PATH}                                       a file of an imported module has changed

Forks of the zygote fork the workers, and end at once. So the fork server becomes the parent of the workers and reaps
them, and the end of the zygote is no end of a worker.
"""

import contextlib
import errno
import gc
import socket
import struct
import sys

from . import free_places, libc, oom_score, prefork
from .changed_variables import ChangedVariables
from .originals import json, os, signal
from .preload import Preload, report_of_failure

NAME = b"ej-zygote"
_MESSAGE_BYTES = 1 << 16
_MAX_FDS = 253
"""SCM_MAX_FD: the kernel sends no more descriptors in one message."""
_FDS_BYTES = socket.CMSG_SPACE(_MAX_FDS * struct.calcsize("i"))


class Zygote:
    """The zygote of this interpreter. It watches from its creation on, which is before any code of the user."""

    def __init__(self, fd: int, modules_before: "frozenset[str]") -> None:
        """`fd` is the socket of the agent; `modules_before` are the modules that Python has loaded by itself."""
        self._agent = socket.socket(fileno=fd)
        self._agent.set_inheritable(False)
        self._fork_server = os.getppid()
        original_oom_score = oom_score.raise_own()
        _, [plan_fd, *others] = _receive(self._agent)
        self._preload = Preload(_read_json(plan_fd), (fd, *others), modules_before)
        [self._variables_fd] = others
        self._state = prefork.ImportState(self._preload, original_oom_score)
        libc.set_process_name(NAME)
        self._filling: "list[list[object]]" = []
        self._forked = 0

    def run(self) -> None:
        """Serve the agent; return in a forked worker only, when it is to run the script."""
        try:
            report = self._preload.run()
        except Exception as error:  # noqa: BLE001 - code of an import may raise anything, for example a __getattr__
            report = report_of_failure(error)
        self._state.note_process_name(NAME)
        _flush()
        _send_report(self._agent, report)
        del report  # its places are free now, too
        self._state.changed_variables = self._map_variables()
        self._filling = free_places.fill()
        gc.freeze()
        while True:
            message, fds = _receive(self._agent)
            if not message:
                os._exit(0)
            if message.get("exit"):
                # Other files that exit functions remove may be those of a worker that trains.
                if self._preload.made_temporary_files:
                    _exit_in_order()
                os._exit(0)
            if not message.get("fork"):
                continue
            changed = self._preload.check.first_changed() if message.get("check") else ""
            if changed:
                _close(fds)
                _send(self._agent, {"stale": changed})
                continue
            fd, failure = self._fork_all(fds)
            if fd is not None:
                prefork.wait_and_become_worker(fd, self._fork_server, self._state)
                return
            _close(fds)
            _send(self._agent, {"failed": failure} if failure else {"forked": True})

    def _map_variables(self) -> ChangedVariables:
        size = os.fstat(self._variables_fd).st_size
        changed = ChangedVariables(libc.map_shared(self._variables_fd, size), size)
        os.close(self._variables_fd)
        return changed

    def _fork_all(self, fds: "list[int]") -> "tuple[int | None, str]":
        """Fork a worker for each of these sockets; return its socket in a worker, and here why not all are forked."""
        # A forked worker takes no signal until it runs the script; then it gets the mask that the imports have left.
        self._state.signal_mask = signal.pthread_sigmask(signal.SIG_SETMASK, signal.valid_signals())
        middles, failed = [], 0
        for part in _parts(fds, len(os.sched_getaffinity(0))):
            try:
                middle = os.fork()
            except OSError as error:  # a limit of processes or of memory
                failed = error.errno or errno.EAGAIN
                break
            if middle == 0:
                fd = _fork_each(part)
                self._agent.close()
                self._state.number = self._forked + fds.index(fd)
                _close([each for each in fds if each != fd])
                return fd, ""
            middles.append(middle)
        for middle in middles:
            with contextlib.suppress(ChildProcessError):  # an import ignores SIGCHLD; it has ended then, too
                failed = os.waitpid(middle, 0)[1] >> 8 or failed
        self._forked += len(fds)
        signal.sigtimedwait({signal.SIGCHLD}, 0)  # a handler of an import is not called for our processes
        signal.pthread_sigmask(signal.SIG_SETMASK, self._state.signal_mask)
        return None, os.strerror(failed) if failed else ""


def _parts(fds: "list[int]", processors: int) -> "list[list[int]]":
    """Divide the sockets among processes that fork at the same time: as many as each of them forks workers."""
    count = max(min(round(len(fds) ** 0.5), processors), 1)
    return [fds[place::count] for place in range(count)]


def _fork_each(fds: "list[int]") -> int:
    """Fork for each of these sockets, and end with the error, if any; return the socket in each forked process."""
    failed = 0
    for fd in fds:
        try:
            if os.fork() == 0:
                return fd
        except OSError as error:
            failed = error.errno or errno.EAGAIN
            break
    os._exit(failed)
    raise AssertionError  # for type checkers


def _receive(agent: socket.socket) -> "tuple[dict[str, object], list[int]]":
    """Return the next message and its descriptors; an empty message is the end of the agent."""
    try:
        data, ancillary, _, _ = agent.recvmsg(_MESSAGE_BYTES, _FDS_BYTES, socket.MSG_CMSG_CLOEXEC)
    except ConnectionError:
        return {}, []
    fds = [fd for _, _, raw in ancillary for (fd,) in struct.iter_unpack("i", raw)]
    return json.loads(data) if data else {}, fds


def _close(fds: "list[int]") -> None:
    for fd in fds:
        os.close(fd)


def _send(agent: socket.socket, message: "dict[str, object]") -> None:
    try:
        agent.send(json.dumps(message).encode("ascii"))
    except ConnectionError:
        os._exit(0)


def _send_report(agent: socket.socket, report: "dict[str, object]") -> None:
    """Send the report in a memory file, because it may be longer than a message."""
    fd = _memory_file(json.dumps(report).encode("ascii"))
    try:
        agent.sendmsg([b'{"report": true}'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, struct.pack("i", fd))])
    except ConnectionError:
        os._exit(0)
    os.close(fd)


def _memory_file(content: bytes) -> int:
    """Return the descriptor of a memory file with this content."""
    if hasattr(os, "memfd_create"):
        fd = os.memfd_create("elasticjob")
    else:  # Python was built for an old C library
        fd = os.open("/tmp", os.O_TMPFILE | os.O_RDWR, 0o600)  # noqa: S108 - an unnamed file
    view = memoryview(content)
    while view:
        view = view[os.write(fd, view) :]
    return fd


def _read_json(fd: int) -> "dict[str, object]":
    with os.fdopen(fd, "rb") as file:
        file.seek(0)
        return json.loads(file.read())  # type: ignore[no-any-return]


def _flush() -> None:
    """Write out what the imports have printed: each forked worker would write the same bytes again."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (AttributeError, ValueError, OSError):
            continue
    libc.flush_streams()


def _exit_in_order() -> None:
    """End, and let the imports remove what they have made, for example temporary folders."""
    import atexit

    try:
        atexit._run_exitfuncs()
    finally:
        os._exit(0)
