"""Limits for one process: a small tmpfs that no other process sees, no instance of inotify, or another user.

`run_beside_hung_directory` gives it a file system that never answers: processes that use it cannot be killed.
"""

import asyncio
import contextlib
import ctypes
import os
import struct
import sys
import threading
import traceback
from collections.abc import Callable, Coroutine
from pathlib import Path

import pytest

_CLONE_NEWNS, _CLONE_NEWUSER = 0x20000, 0x10000000
_MS_REC, _MS_PRIVATE, _MNT_FORCE = 0x4000, 0x40000, 1
_NOT_ALLOWED = 2
_REQUEST_BYTES = 1 << 17
"""The kernel refuses a smaller buffer than one for a whole write."""
_libc = ctypes.CDLL(None, use_errno=True)

Acting = Coroutine[None, None, None]
Act = Callable[[], Acting]


def run_in_small_tmpfs(directory: Path, size: int, act: Act) -> None:
    """Run `act` in a process that sees a tmpfs of `size` bytes at this directory; fail if it fails."""
    directory.mkdir(parents=True)
    _run_apart(lambda: _mount(directory, size), act)


def run_without_inotify(act: Act) -> None:
    """Run `act` in a process for which the system has no instance of inotify left; fail if it fails."""
    _run_apart(_forbid_inotify, act)


def run_beside_hung_directory(directory: Path, act: Callable[[Callable[[], None]], Acting]) -> None:
    """Run `act` in a process for which this directory never answers; fail if it fails.

    Its argument is a function that ends the file system: each call that waits for it then fails.
    """
    directory.mkdir(parents=True)
    # By force, because callers hang in it. It fails for them; whether the mount can go, too, makes no difference.
    _run_apart(lambda: _mount_hung(directory), lambda: act(lambda: _libc.umount2(bytes(directory), _MNT_FORCE)))


def run_as_user(user: int, act: Act) -> None:
    """Run `act` in a process of this user and its group; fail if it fails."""
    _run_apart(lambda: _become(user), act)


def _run_apart(prepare: Callable[[], None], act: Act) -> None:
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            code = _run(prepare, act)
        except BaseException:  # noqa: BLE001 - the parent fails by the code
            traceback.print_exc()
        finally:
            os._exit(code)
    _, status = os.waitpid(pid, 0)
    if os.waitstatus_to_exitcode(status) == _NOT_ALLOWED:
        pytest.skip("this machine allows no namespaces, or no other user")
    assert os.waitstatus_to_exitcode(status) == 0, "see the traceback in the output"


def _run(prepare: Callable[[], None], act: Act) -> int:
    try:
        prepare()
    except PermissionError:
        return _NOT_ALLOWED
    asyncio.run(act())
    return 0


def _mount(directory: Path, size: int) -> None:
    if os.geteuid() != 0:
        _enter_user_namespace()
    _check(_libc.unshare(_CLONE_NEWNS))
    _check(_libc.mount(None, b"/", None, _MS_REC | _MS_PRIVATE, None))
    _check(_libc.mount(b"keep", bytes(directory), b"tmpfs", 0, f"size={size}".encode()))


def _mount_hung(directory: Path) -> None:
    """Mount a FUSE file system that answers its first request only."""
    try:
        served = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
    except OSError as error:
        raise PermissionError("this machine has no FUSE") from error
    _check(_libc.unshare(_CLONE_NEWNS))
    _check(_libc.mount(None, b"/", None, _MS_REC | _MS_PRIVATE, None))
    options = f"fd={served},rootmode=40000,user_id={os.geteuid()},group_id={os.getegid()}"
    _check(_libc.mount(b"hung", bytes(directory), b"fuse", 0, options.encode()))
    threading.Thread(target=_take_requests, args=(served,), daemon=True).start()


def _take_requests(served: int) -> None:
    """Answer FUSE_INIT, and take each later request without an answer: only then SIGKILL ends no caller."""
    request = os.read(served, _REQUEST_BYTES)
    (unique,) = struct.unpack_from("=Q", request, 8)
    answer = struct.pack("=IIIIHHIIHHI28x", 7, 31, 0, 0, 0, 0, 1 << 16, 1, 0, 0, 0)
    os.write(served, struct.pack("=IiQ", 16 + len(answer), 0, unique) + answer)
    with contextlib.suppress(OSError):  # the file system has ended
        while True:
            os.read(served, _REQUEST_BYTES)


def _forbid_inotify() -> None:
    _enter_user_namespace()
    Path("/proc/sys/user/max_inotify_instances").write_text("0")


def _become(user: int) -> None:
    os.setgroups([])
    os.setgid(user)
    os.setuid(user)
    if not os.access(sys.executable, os.X_OK) or not os.access(__file__, os.R_OK):
        raise PermissionError("another user cannot run this interpreter")


def _enter_user_namespace() -> None:
    user, group = os.geteuid(), os.getegid()
    _check(_libc.unshare(_CLONE_NEWUSER))
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
    Path("/proc/self/gid_map").write_text(f"{group} {group} 1")


def _check(result: int) -> None:
    if result != 0:
        code = ctypes.get_errno()
        raise PermissionError(code, os.strerror(code))
