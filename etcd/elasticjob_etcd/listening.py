"""Addresses of an embedded etcd: Unix sockets in a private folder, and on request a port for clients.

Other users of the machine cannot enter the folder, so they reach neither the store nor the socket for etcd's peers.
Peers never have a port: their messages change the store without any permission.
"""

import os
import re
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from elasticjob_etcd.errors import ServerError
from elasticjob_etcd.interface import Endpoint

LOOPBACK = "127.0.0.1"
_CLIENT, _PEER = "client:0", "peer:0"
"""Names of the sockets. etcd 3.5.1 requires host:port, and no etcd accepts a folder in a peer's URL."""
_MAX_BYTES = 107
"""The kernel's limit for the path of a Unix socket."""
_SAFE = re.compile(r"[A-Za-z0-9_./-]+")
"""A path that needs no escapes in a URL or in a list separated by commas."""
_SHORT = "/tmp"  # noqa: S108  # mkdtemp makes a folder in it
_PREFIX = "elasticjob-"
_NO_ADDRESS = "http://127.0.0.2:1"
"""The advertised address: etcd requires host:port, and no client dials it."""


@dataclass(frozen=True, slots=True)
class Listening:
    """The sockets of one server, which must run in `folder`."""

    folder: Path
    port: int | None = None
    """For clients; 0 is any free one, None is none."""
    addresses: Sequence[str] = (LOOPBACK,)
    """The addresses of that port."""
    lock: int | None = None
    """A descriptor that the server holds while it runs. With it, the folder remains when the server has ended."""

    @classmethod
    def prepare(cls, port: int | None, addresses: Sequence[str]) -> "Listening":
        """Return one with a new folder; raise `ServerError`."""
        return cls(_private_folder(), port, addresses)

    @property
    def path(self) -> Path:
        """Return the path of the Unix socket for clients of this user."""
        return self.folder / _CLIENT

    @property
    def socket(self) -> Endpoint:
        """Return the endpoint of that socket."""
        return Endpoint((f"unix:{self.path}",))

    @property
    def is_open(self) -> bool:
        """Whether the socket exists: the server has begun to listen."""
        return self.path.exists()

    def flags(self) -> dict[str, str]:
        """Return etcd's flags by name."""
        urls = [] if self.port is None else [f"http://{address}:{self.port}" for address in self.addresses]
        return {
            "listen-client-urls": ",".join([f"unix://{_CLIENT}", *urls]),
            "advertise-client-urls": _NO_ADDRESS,
            "listen-peer-urls": f"unix://{_PEER}",
            "initial-advertise-peer-urls": _NO_ADDRESS,
        }

    def remove(self) -> None:
        """Delete the folder, unless the next server of its port may already use it; idempotent."""
        if self.lock is None:
            shutil.rmtree(self.folder, ignore_errors=True)

    def remove_sockets(self) -> None:
        """Delete the sockets that a killed server has left; only for the holder of the lock."""
        for name in (_CLIENT, _PEER):
            (self.folder / name).unlink(missing_ok=True)


def can_hold_sockets(folder: Path) -> bool:
    """Whether the kernel and clients accept the paths of sockets in this folder."""
    return len(os.fsencode(folder / _CLIENT)) <= _MAX_BYTES and _SAFE.fullmatch(str(folder)) is not None


def _private_folder() -> Path:
    """Make a folder that other users cannot enter, with a path short enough for a socket, and return it."""
    try:
        return Path(tempfile.mkdtemp(prefix=_PREFIX, dir=_parent()))
    except OSError as error:
        message = f"the folder of etcd's sockets cannot be made: {error.filename}: {error.strerror}; set TMPDIR"
        raise ServerError(message) from error


def _parent() -> str:
    """Return the folder for temporary files, or `/tmp` if its path is too long for a socket."""
    usual = os.path.abspath(tempfile.gettempdir())  # noqa: PTH100  # as tempfile itself
    longest = len(os.fsencode(usual)) + len(f"/{_PREFIX}12345678/{_CLIENT}")
    return usual if longest <= _MAX_BYTES and _SAFE.fullmatch(usual) else _SHORT
