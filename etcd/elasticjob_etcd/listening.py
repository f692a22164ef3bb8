"""Where an embedded etcd listens: on Unix sockets in a private folder, and at a port for clients if one is asked for.

Other users of the machine cannot enter the folder, so they reach neither the store nor the socket for etcd's peers.
Peers have no port in any case: what comes from them changes the store without any permission.
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
"""Names of the sockets. etcd 3.5.1 wants host:port, and no etcd takes a folder in a peer's URL."""
_MAX_BYTES = 107
"""Of a Unix socket's path, as the kernel has it."""
_SAFE = re.compile(r"[A-Za-z0-9_./-]+")
"""A path that stays the same in a URL, and in a list that is separated by commas."""
_SHORT = "/tmp"  # noqa: S108  # a folder is made there by mkdtemp
_PREFIX = "elasticjob-"
_NO_ADDRESS = "http://127.0.0.2:1"
"""What etcd advertises: it must be host:port, and nothing dials it."""


@dataclass(frozen=True, slots=True)
class Listening:
    """The sockets of one server, which must run in `folder`."""

    folder: Path
    port: int | None = None
    """For clients; 0 is any free one, None is none."""
    addresses: Sequence[str] = (LOOPBACK,)
    """Where that port is."""
    lock: int | None = None
    """A descriptor that the server keeps open while it lives; with one the folder stays when the server has ended."""

    @classmethod
    def prepare(cls, port: int | None, addresses: Sequence[str]) -> "Listening":
        """With a new folder; raises `ServerError`."""
        return cls(_private_folder(), port, addresses)

    @property
    def path(self) -> Path:
        """Of the Unix socket for clients of this user."""
        return self.folder / _CLIENT

    @property
    def socket(self) -> Endpoint:
        """That socket."""
        return Endpoint((f"unix:{self.path}",))

    @property
    def is_open(self) -> bool:
        """The socket is there: the server has begun to listen."""
        return self.path.exists()

    def flags(self) -> dict[str, str]:
        """etcd's, by name."""
        urls = [] if self.port is None else [f"http://{address}:{self.port}" for address in self.addresses]
        return {
            "listen-client-urls": ",".join([f"unix://{_CLIENT}", *urls]),
            "advertise-client-urls": _NO_ADDRESS,
            "listen-peer-urls": f"unix://{_PEER}",
            "initial-advertise-peer-urls": _NO_ADDRESS,
        }

    def remove(self) -> None:
        """Delete the folder, unless the next server of its port may already be in it; idempotent."""
        if self.lock is None:
            shutil.rmtree(self.folder, ignore_errors=True)

    def remove_sockets(self) -> None:
        """Delete those that a server which was killed has left; for who has the lock."""
        for name in (_CLIENT, _PEER):
            (self.folder / name).unlink(missing_ok=True)


def can_hold_sockets(folder: Path) -> bool:
    """Sockets in this folder have paths that the kernel and clients take."""
    return len(os.fsencode(folder / _CLIENT)) <= _MAX_BYTES and _SAFE.fullmatch(str(folder)) is not None


def _private_folder() -> Path:
    """A new folder that other users cannot enter, whose path is short enough for a socket."""
    try:
        return Path(tempfile.mkdtemp(prefix=_PREFIX, dir=_parent()))
    except OSError as error:
        message = f"the folder of etcd's sockets cannot be made: {error.filename}: {error.strerror}; set TMPDIR"
        raise ServerError(message) from error


def _parent() -> str:
    """The folder for temporary files, or `/tmp` where no socket can be below that."""
    usual = os.path.abspath(tempfile.gettempdir())  # noqa: PTH100  # as tempfile itself
    longest = len(os.fsencode(usual)) + len(f"/{_PREFIX}12345678/{_CLIENT}")
    return usual if longest <= _MAX_BYTES and _SAFE.fullmatch(usual) else _SHORT
