"""The proof of this keeper's identity, as the agent's last JoinRequest has it, with the certificate files of now.

A certificate is valid for a day, and a round may take longer. The files of a Secret are replaced all at once by a
symbolic link. So each new connection looks at them first, which is a `stat` of three files.
"""

import os
import threading
from collections.abc import Callable

from elasticjob_agent.keep.keeper.errors import ControlError
from elasticjob_agent.keep.keeper.messages import JoinRequest, OpenRequest
from elasticjob_agent.keep.keeper.round_peers import parse_member
from elasticjob_agent.keep.transfer.connection import TlsContexts
from elasticjob_agent.keep.transfer.errors import HandshakeError
from elasticjob_agent.keep.transfer.handshake import KeeperIdentity
from elasticjob_agent.keep.transfer.session import KeeperCredentials, load_tls

_NOT_JOINED = "the job's link secret is not known yet"

_Signature = tuple[tuple[int, int, int], ...]
_Proof = tuple[KeeperIdentity, bytes]


class CurrentCredentials:
    """The credentials of now; there are none before the agent has joined and knows the job's link secret."""

    def __init__(self, opened: OpenRequest, report: Callable[[str], None]) -> None:
        self._opened = opened
        self._report = report
        self._lock = threading.Lock()
        self._proof: _Proof | None = None
        self._credentials: KeeperCredentials | None = None
        self._files: _Signature | None = None
        """The certificate files that were read last."""
        self.trouble = _NOT_JOINED
        """Why there are none; empty if there are."""

    def join(self, joined: JoinRequest) -> bool:
        """Use this identity; return whether it is another one than before; raise ControlError."""
        identity = KeeperIdentity(self._opened.job, joined.run, parse_member(joined.member))
        secret = _parse_secret(joined.secret)
        with self._lock:
            before, self._proof = self._proof, (identity, secret) if secret else None
            self._credentials, self._files, self.trouble = None, None, _NOT_JOINED
            self._load()
            return before is not None and before != self._proof

    def get(self) -> KeeperCredentials | None:
        """Return the credentials; None if there are none."""
        with self._lock:
            self._load()
            return self._credentials

    def require(self) -> KeeperCredentials:
        """Return the credentials; raise HandshakeError if there are none."""
        found = self.get()
        if found is None:
            raise HandshakeError(self.trouble)
        return found

    def _load(self) -> None:
        """Read the certificate if its files are others than those that were read; an unusable one replaces none."""
        if self._proof is None:
            return
        files = _signature(self._opened)
        if self._files is not None and files == self._files:
            return
        self._files = files
        try:
            self._credentials, self.trouble = KeeperCredentials(*self._proof, self._load_tls()), ""
        except OSError as error:  # that of ssl is one, too
            reason = f"the certificate cannot be used: {error}"
            if self._credentials is None:
                self.trouble = reason
                self._report(f"no part is copied or fetched: {reason}")
            else:
                self._report(f"the renewed certificate is not used yet: {reason}")

    def _load_tls(self) -> TlsContexts | None:
        opened = self._opened
        if not opened.certificate:
            return None
        return load_tls(certificate=opened.certificate, key=opened.key, authority=opened.authority)


def _signature(opened: OpenRequest) -> _Signature:
    """Return a value that changes when a certificate file is replaced; empty without files, or while one is missing."""
    paths = (opened.certificate, opened.key, opened.authority) if opened.certificate else ()
    try:
        found = [os.stat(path) for path in paths]  # noqa: PTH116 -- paths are text here, and links are followed
    except OSError:
        return ()
    return tuple((each.st_ino, each.st_mtime_ns, each.st_size) for each in found)


def _parse_secret(text: str) -> bytes:
    try:
        return bytes.fromhex(text)
    except ValueError as error:
        raise ControlError("the link secret is not of hex digits") from error
