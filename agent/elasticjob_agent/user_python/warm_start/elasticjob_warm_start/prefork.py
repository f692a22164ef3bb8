"""A worker that was forked ahead: it waits for its command, and then becomes what an exec of it would have been."""

import atexit
import gc
import socket
import struct
import sys
import threading

from . import libc, oom_score, stacks
from .originals import fcntl, os, select, signal, time
from .preload import Preload, forget_folders

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .changed_variables import ChangedVariables

NAME = b"ej-preforked"
_PARENT_TIMEOUT_S = 5.0
_REASON_BYTES = 500
_MAX_FDS = 253
_FDS_BYTES = socket.CMSG_SPACE(_MAX_FDS * struct.calcsize("i"))
_Socket = socket.socket  # code of the user may replace it


class ImportState:
    """The state that the imports have left, and that a forked worker must take over or correct."""

    def __init__(self, preload: Preload, original_oom_score: "int | None") -> None:
        """`original_oom_score` is the one that a worker gets back; None: the zygote's own."""
        self.preload = preload
        self.original_oom_score = original_oom_score
        self.process_name = libc.process_name()
        self.signal_mask: "set[int]" = set()
        self.number = 0
        """The number of this worker among those of the zygote."""
        self.changed_variables: "ChangedVariables | None" = None

    def note_process_name(self, own: bytes) -> None:
        """Take over the name that an import has given to this process, and give it its `own` one again."""
        name = libc.process_name()
        if name != own:
            self.process_name = name
            libc.set_process_name(own)


def wait_and_become_worker(fd: int, fork_server: int, state: ImportState) -> None:
    """Wait on this socket until the fork server sends a command; return when Python may run the script.

    The socket reports to the fork server, in this order: `ready` (with the pid, by the kernel), then `ok`,
    `lost REASON` or `ERRNO STAGE`. Without a command, this process ends with the socket or with the fork server.
    """
    libc.set_process_name(NAME)
    _wait_for_parent(fork_server)
    os.setsid()
    command, stdout, stderr, latch, *extras = _wait_for_command(fd)
    stage = "setup"
    try:
        cpus, cwd, _, variables = _read_command(command)
        _install_streams(stdout, stderr)
        fd, latch = _place_extras([fd, latch], extras)  # last: a number from 3 on may be one of those above
        stage = "cpus"
        if cpus:
            os.sched_setaffinity(0, cpus)
        stage = "cwd"
        if cwd:
            os.chdir(cwd)
        stage = "setup"
        oom_score.restore(state.original_oom_score)
        state.preload.environment.replace(variables)
        reason = state.preload.check.reason(state.preload.packages.folders)
        if reason:
            _end_lost(fd, reason)
        os.read(latch, 8)
        os.close(latch)
        _correct_copied_state(state)
        if state.changed_variables is not None:
            environment = state.preload.environment
            environment.note_changes(state.changed_variables.noting(state.number, environment.read_names))
        os.write(fd, b"ok")
    except BaseException as error:  # noqa: BLE001 - the script must not run here after any error
        if stage == "setup" or not isinstance(error, OSError):
            _end_lost(fd, "{}: {}".format(type(error).__name__, error))
        code = error.errno if isinstance(error, OSError) else 0
        os.write(fd, "{} {}".format(code, stage).encode("ascii"))
        os._exit(127)
    os.close(fd)
    # A stop that was sent meanwhile takes effect here.
    signal.pthread_sigmask(signal.SIG_SETMASK, state.signal_mask)


def _wait_for_parent(fork_server: int) -> None:
    """Wait until the fork server is the parent, and end with it from then on."""
    deadline_s = time.monotonic() + _PARENT_TIMEOUT_S
    while os.getppid() != fork_server:
        if time.monotonic() > deadline_s:
            os._exit(1)
        select.select([], [], [], 0.001)
    # Not before: the end of the process in between would send the signal.
    libc.signal_on_parent_death(signal.SIGKILL)
    if os.getppid() != fork_server:
        os._exit(1)


def _wait_for_command(fd: int) -> "list[int]":
    """Return the descriptors of a command: its memory file, stdout, stderr, latch, and others."""
    link = _Socket(fileno=fd)
    try:
        link.send(b"ready")
        message, ancillary, flags, _ = link.recvmsg(64, _FDS_BYTES, socket.MSG_CMSG_CLOEXEC)
    except ConnectionError:
        os._exit(0)
    finally:
        link.detach()
    if message != b"start":
        os._exit(0)
    if flags & socket.MSG_CTRUNC:
        _end_lost(fd, "it has too few numbers left for the descriptors of its command")
    return [each for _, _, raw in ancillary for (each,) in struct.iter_unpack("i", raw)]


def _end_lost(fd: int, reason: str) -> None:
    """End before anything of the user has run; the command is started cold."""
    shown = "".join(each if each.isprintable() else " " for each in reason)  # a name of a file may have any character
    os.write(fd, "lost {}".format(shown).encode("ascii", "backslashreplace")[:_REASON_BYTES])
    os._exit(127)


def _place_extras(kept: "list[int]", extras: "list[int]") -> "list[int]":
    """Give the further descriptors of the command the numbers 3, 4 and so on; return the new numbers of the others."""
    above = 3 + len(extras)
    # Copy to numbers above the targets first: neither a source nor one that is kept may have a target's number.
    copies = [fcntl.fcntl(each, fcntl.F_DUPFD_CLOEXEC, above) for each in (*kept, *extras)]
    for each in (*kept, *extras):
        os.close(each)
    for place, each in enumerate(copies[len(kept) :], 3):
        os.dup2(each, place)
        os.close(each)
    return copies[: len(kept)]


def _read_command(fd: int) -> "tuple[list[int], bytes, list[bytes], dict[bytes, bytes]]":
    """Return processors, working directory, arguments and environment, as forkserver_protocol.encode() wrote them."""
    with os.fdopen(fd, "rb") as file:
        file.seek(0)
        cpus, cwd, argc, *fields = file.read().split(b"\0")
    argv, env = fields[: int(argc)], fields[int(argc) :]
    return [int(each) for each in cpus.split(b",") if each], cwd, argv, dict(each.split(b"=", 1) for each in env)


def _install_streams(stdout: int, stderr: int) -> None:
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.dup2(stdout, 1)
    os.dup2(stderr, 2)
    for fd in {null, stdout, stderr} - {0, 1, 2}:
        os.close(fd)


def _correct_copied_state(state: ImportState) -> None:
    """Give this process what a new interpreter would have of its own."""
    libc.set_process_name(state.process_name)
    main = threading.main_thread()
    if hasattr(main, "_set_native_id"):
        main._set_native_id()
    for name in ("multiprocessing.process", "multiprocess.process"):  # the latter is a copy of the former, with dill
        if name in sys.modules:
            sys.modules[name].current_process().authkey = os.urandom(32)
    logging: "Any" = sys.modules.get("logging")
    if logging is not None:  # the times of log records are relative to it; from Python 3.13 on in nanoseconds
        logging._startTime = time.time_ns() if isinstance(logging._startTime, int) else time.time()
    forget_folders()
    state.preload.generators.reseed()
    stacks.register()
    # Frozen objects are never collected, also not at the exit: files of the script would not be flushed.
    atexit.register(gc.unfreeze)
