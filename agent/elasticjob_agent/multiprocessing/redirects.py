"""Redirection of this process's own stdout or stderr to a file, below Python: C code and child processes follow.

The descriptor of Python's stream and descriptor 1 or 2 are both redirected; under a test runner they differ. Buffers
are flushed at the beginning and at the end, so that each byte goes to the right file.
"""

import contextlib
import ctypes
import os
import sys
from collections.abc import Iterator
from functools import partial

_STANDARD_FDS = {"stdout": 1, "stderr": 2}


@contextlib.contextmanager
def redirect(std: str, to_file: str) -> Iterator[None]:
    """Send a standard stream to a file within the block; an existing file is overwritten.

    Args:
        std: `stdout` or `stderr`.
        to_file: the path; its folder must exist.

    Raises:
        ValueError: there is no such stream.
    """
    if std not in _STANDARD_FDS:
        raise ValueError(f"unknown standard stream {std!r}; it is one of {', '.join(_STANDARD_FDS)}")
    with open(to_file, "wb") as target, contextlib.ExitStack() as restored:  # noqa: PTH123 - a str
        _flush(std)
        for fd in _descriptors(std):
            saved = os.dup(fd)
            restored.callback(os.close, saved)
            restored.callback(os.dup2, saved, fd)
            os.dup2(target.fileno(), fd)
        restored.callback(_flush, std)
        yield


redirect_stdout = partial(redirect, "stdout")
redirect_stderr = partial(redirect, "stderr")


def _descriptors(std: str) -> set[int]:
    fds = {_STANDARD_FDS[std]}
    with contextlib.suppress(AttributeError, OSError, ValueError):  # None, or an object without a descriptor
        fds.add(getattr(sys, std).fileno())
    return fds


def _flush(std: str) -> None:
    with contextlib.suppress(AttributeError, OSError, ValueError):  # None or closed
        getattr(sys, std).flush()
    ctypes.CDLL(None).fflush(None)
