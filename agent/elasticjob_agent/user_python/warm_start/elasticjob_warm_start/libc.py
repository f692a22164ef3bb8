"""The few functions of the C library that Python does not offer."""

import ctypes
import os

_libc = ctypes.CDLL(None, use_errno=True)
_PR_SET_PDEATHSIG = 1
_PR_SET_NAME = 15
_PR_GET_NAME = 16
_PR_GET_CHILD_SUBREAPER = 37
_NAME_BYTES = 16
_PROT_READ, _PROT_WRITE, _MAP_SHARED = 1, 2, 1
_MAP_FAILED = ctypes.c_void_p(-1).value


def flush_streams() -> None:
    """Flush the buffers of C's standard streams."""
    _libc.fflush(None)


def environment() -> "dict[bytes, bytes]":
    """Return the variables of C's environment."""
    found: "dict[bytes, bytes]" = {}
    entries = ctypes.POINTER(ctypes.c_char_p).in_dll(_libc, "environ")
    for entry in iter(entries) if entries else ():
        if entry is None:
            break
        name, _, value = entry.partition(b"=")
        found.setdefault(name, value)
    return found


def clear_environment() -> None:
    """Remove all variables of C's environment."""
    _libc.clearenv()


def map_shared(fd: int, size: int) -> int:
    """Return the address at which the content of this file now is, for this process and its forks; raise OSError."""
    _libc.mmap.restype = ctypes.c_void_p
    arguments = (None, ctypes.c_size_t(size), _PROT_READ | _PROT_WRITE, _MAP_SHARED, fd, ctypes.c_long(0))
    address: "int | None" = _libc.mmap(*arguments)
    if address is None or address == _MAP_FAILED:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return address


def signal_on_parent_death(signum: int) -> None:
    """Have the kernel send this signal when the parent ends."""
    _libc.prctl(_PR_SET_PDEATHSIG, signum, 0, 0, 0)


def is_subreaper() -> bool:
    """Whether the kernel gives this process the children of those below it that end."""
    found = ctypes.c_int()
    return _libc.prctl(_PR_GET_CHILD_SUBREAPER, ctypes.byref(found), 0, 0, 0) == 0 and found.value != 0


def process_name() -> bytes:
    """Return the name of this thread, as `ps` and `top` show it."""
    name = ctypes.create_string_buffer(_NAME_BYTES)
    _libc.prctl(_PR_GET_NAME, name, 0, 0, 0)
    return name.value


def set_process_name(name: bytes) -> None:
    """Set that name; the kernel keeps 15 bytes of it."""
    _libc.prctl(_PR_SET_NAME, ctypes.c_char_p(name), 0, 0, 0)
