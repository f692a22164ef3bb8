"""Make the zygote, and the workers that wait, the first that the kernel kills when memory is short.

A worker gets the original value back before its script runs. Without a privilege, a process may only lower the value to
the one that a privileged process has set. So a forked process tries first whether that works here.
"""

import os

_FILE = "/proc/self/oom_score_adj"
_FIRST_TO_GO = 1000
_SUCCESS = 0
_open, _write_bytes, _close = os.open, os.write, os.close  # an import may replace them


def raise_own() -> "int | None":
    """Raise the value of this process; return the one that its forks must restore, None if nothing was changed."""
    try:
        original = _read()
        if original >= _FIRST_TO_GO or not _can_restore(original):
            return None
        _write(_FIRST_TO_GO)
    except (OSError, ValueError):
        return None
    return original


def restore(original: "int | None") -> None:
    """Give this process the value that `raise_own` returned.

    Raises:
        OSError: the kernel does not allow it.
    """
    if original is not None:
        _write(original)


def _can_restore(original: int) -> bool:
    pid = os.fork()
    if pid == 0:
        try:
            _write(_FIRST_TO_GO)
            _write(original)
            os._exit(_SUCCESS if _read() == original else 1)
        except BaseException:  # noqa: BLE001 - a forked process must never go on from here
            os._exit(1)
    return os.waitpid(pid, 0)[1] == _SUCCESS


def _read() -> int:
    with open(_FILE, "rb") as file:
        return int(file.read())


def _write(value: int) -> None:
    fd = _open(_FILE, os.O_WRONLY)
    try:
        # One unbuffered write: Python drops the error of a write that a file object makes when it is collected.
        _write_bytes(fd, b"%d" % value)
    finally:
        _close(fd)
