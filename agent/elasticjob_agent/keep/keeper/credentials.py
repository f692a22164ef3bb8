"""The proof of this keeper's identity, as the agent's last JoinRequest has it."""

from collections.abc import Callable

from elasticjob_agent.keep.keeper.errors import ControlError
from elasticjob_agent.keep.keeper.messages import JoinRequest, OpenRequest
from elasticjob_agent.keep.keeper.round_peers import parse_member
from elasticjob_agent.keep.transfer.connection import TlsContexts
from elasticjob_agent.keep.transfer.errors import HandshakeError
from elasticjob_agent.keep.transfer.handshake import KeeperIdentity
from elasticjob_agent.keep.transfer.session import KeeperCredentials, load_tls

_NOT_JOINED = "the job's link secret is not known yet"


class CurrentCredentials:
    """The credentials of now; there are none before the agent has joined and knows the job's link secret."""

    def __init__(self, opened: OpenRequest, report: Callable[[str], None]) -> None:
        self._opened = opened
        self._report = report
        self._credentials: KeeperCredentials | None = None
        self.trouble = _NOT_JOINED
        """Why there are none; empty if there are."""

    def join(self, joined: JoinRequest) -> bool:
        """Use this identity; return whether it is another one than before; raise ControlError."""
        identity = KeeperIdentity(self._opened.job, joined.run, parse_member(joined.member))
        secret = _parse_secret(joined.secret)
        before, self._credentials, self.trouble = self._credentials, None, _NOT_JOINED
        if secret:
            try:
                self._credentials, self.trouble = KeeperCredentials(identity, secret, self._load_tls()), ""
            except OSError as error:  # that of ssl is one, too
                self.trouble = f"the certificate cannot be used: {error}"
                self._report(f"no part is copied or fetched: {self.trouble}")
        return before is not None and _proof(before) != _proof(self._credentials)

    def _load_tls(self) -> TlsContexts | None:
        opened = self._opened
        if not opened.certificate:
            return None
        return load_tls(certificate=opened.certificate, key=opened.key, authority=opened.authority)

    def get(self) -> KeeperCredentials | None:
        """Return the credentials; None if there are none."""
        return self._credentials

    def require(self) -> KeeperCredentials:
        """Return the credentials; raise HandshakeError if there are none."""
        if self._credentials is None:
            raise HandshakeError(self.trouble)
        return self._credentials


def _parse_secret(text: str) -> bytes:
    try:
        return bytes.fromhex(text)
    except ValueError as error:
        raise ControlError("the link secret is not of hex digits") from error


def _proof(credentials: KeeperCredentials | None) -> tuple[KeeperIdentity, bytes] | None:
    return None if credentials is None else (credentials.identity, credentials.secret)
