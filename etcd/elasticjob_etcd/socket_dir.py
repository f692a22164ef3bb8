"""The folder where the nodes of one user on this machine find one etcd: one for each port, with that etcd's sockets.

Its path follows from the user, the network and the port alone, so every node finds it in any environment. Nodes in
containers that share `/tmp` but no network find different folders. Other users cannot enter it: they cannot reach that
etcd, and no node can mistake theirs for it. The process that may start the etcd holds a lock on the folder and passes
it to etcd itself. So the kernel releases it when that etcd ends, whatever the reason. The lock also keeps
systemd-tmpfiles from cleaning the folder.
"""

import asyncio
import contextlib
import fcntl
import os
import stat
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from elasticjob_etcd.errors import ServerError
from elasticjob_etcd.listening import Listening, can_hold_sockets

VARIABLE = "ELASTICJOB_SOCKET_DIR"
NONE = "none"
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NETWORK = Path("/proc/self/ns/net")
_CURE = f"remove it, or name another one in {VARIABLE} for all nodes of this machine"


_lock_fds = set[int]()
"""The descriptors of this process that lock a folder: a forked child must not keep them."""
_fork_lock = threading.RLock()
"""Prevents a fork between the opening of such a descriptor and its registration."""


def _close_in_child() -> None:
    for descriptor in _lock_fds:
        with contextlib.suppress(OSError):
            os.close(descriptor)
    _lock_fds.clear()
    _fork_lock.release()


os.register_at_fork(before=_fork_lock.acquire, after_in_parent=_fork_lock.release, after_in_child=_close_in_child)


@dataclass(frozen=True, slots=True)
class Claim:
    """The right to start the etcd of a port; `close` gives it up, unless an etcd holds it by then."""

    folder: Path
    descriptor: int

    def close(self) -> None:
        """Close our descriptor; a started etcd keeps the lock."""
        _close(self.descriptor)


def socket_dir(environment: Mapping[str, str]) -> Path | None:
    """Return the folder for all ports; None if nodes use the port itself."""
    named = environment.get(VARIABLE)
    if named == NONE:
        return None
    return Path(named or f"/tmp/elasticjob-{os.geteuid()}{_network_suffix()}").absolute()  # noqa: S108  # its owner is checked


def _network_suffix() -> str:
    """Return a suffix that distinguishes this network from others of the machine; empty if there is none."""
    try:
        return f"-{_NETWORK.stat().st_ino}"
    except OSError:
        return ""


def port_folder(port: int, environment: Mapping[str, str]) -> Path | None:
    """Return the folder for this port, made if absent; None if nodes use the port itself. Raises `ServerError`."""
    parent = socket_dir(environment)
    if parent is None:
        return None
    if not can_hold_sockets(parent / str(port)):
        raise ServerError(f"sockets cannot be in {parent}: it is too long, or has strange characters; {_CURE}")
    os.close(_open_folder(parent))
    os.close(_open_folder(parent / str(port)))
    return parent / str(port)


def claim(folder: Path) -> Claim | None:
    """Return the right to start an etcd there, after removal of old sockets; None if another process has it.

    Raises `ServerError`.
    """
    while True:
        descriptor = _lock(folder)
        if descriptor is None:
            return None
        if _is_at(descriptor, folder):
            Listening(folder).remove_sockets()
            return Claim(folder, descriptor)
        _close(descriptor)  # a cleaner of temporary files has removed the folder


async def answers(folder: Path) -> bool:
    """Return whether a server listens on the clients' socket there."""
    try:
        _, writer = await asyncio.open_unix_connection(Listening(folder).path)
    except OSError:
        return False
    writer.close()
    return True


def _lock(folder: Path) -> int | None:
    """Return a locked descriptor of the folder; None if another process has the lock."""
    with _fork_lock:
        descriptor = _open_folder(folder)
        _lock_fds.add(descriptor)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        _close(descriptor)
        if isinstance(error, BlockingIOError):
            return None
        why = f"it cannot be locked ({error.strerror})"
        cure = f"name a folder of another file system in {VARIABLE} for all nodes of this machine"
        raise ServerError(f"nodes of this machine cannot meet in {folder}: {why}; {cure}") from error
    return descriptor


def _close(descriptor: int) -> None:
    with _fork_lock:
        _lock_fds.discard(descriptor)
        os.close(descriptor)


def _open_folder(folder: Path) -> int:
    """Return a descriptor of this user's folder, made if absent; raise `ServerError` for another user's."""
    try:
        with contextlib.suppress(FileExistsError):
            folder.mkdir(mode=0o700)
        descriptor = os.open(folder, _FOLDER)
    except OSError as error:
        message = f"nodes of this machine cannot meet in {folder}: {error.strerror}; {_CURE}"
        raise ServerError(message) from error
    found = os.fstat(descriptor)
    if found.st_uid == os.geteuid() and not stat.S_IMODE(found.st_mode) & 0o077:
        return descriptor
    os.close(descriptor)
    if found.st_uid == os.geteuid():
        raise ServerError(f"nodes of this machine cannot meet in {folder}: others can enter it; chmod 700 {folder}")
    raise ServerError(
        f"nodes of this machine cannot meet in {folder}: it is the user's with uid {found.st_uid}; {_CURE}"
    )


def _is_at(descriptor: int, folder: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), folder.stat(follow_symlinks=False))
    except FileNotFoundError:
        return False
