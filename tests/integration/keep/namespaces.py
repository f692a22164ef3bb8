"""Limits for one process: a small tmpfs that no other process sees, no instance of inotify, or another user."""

import asyncio
import ctypes
import os
import sys
import traceback
from collections.abc import Callable, Coroutine
from pathlib import Path

import pytest

_CLONE_NEWNS, _CLONE_NEWUSER = 0x20000, 0x10000000
_MS_REC, _MS_PRIVATE = 0x4000, 0x40000
_NOT_ALLOWED = 2
_libc = ctypes.CDLL(None, use_errno=True)

Act = Callable[[], Coroutine[None, None, None]]


def run_in_small_tmpfs(directory: Path, size: int, act: Act) -> None:
    """Run `act` in a process that sees a tmpfs of `size` bytes at this directory; fail if it fails."""
    directory.mkdir(parents=True)
    _run_apart(lambda: _mount(directory, size), act)


def run_without_inotify(act: Act) -> None:
    """Run `act` in a process for which the system has no instance of inotify left; fail if it fails."""
    _run_apart(_forbid_inotify, act)


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
