"""Proof that the other end of a connection has the call's key, and that no byte was changed on the way.

As with multiprocessing's `authkey`, each end sends a challenge, and the other end answers with an HMAC. Here the HMAC
covers the data too, so only data of the authenticated end is unpickled.
"""

import hashlib
import hmac
import re

LINE_BYTES = 65
"""Bytes of a seal: 64 hexadecimal digits and a newline."""
CHALLENGE_BYTES = 33
_CHALLENGE = re.compile(rb"[0-9a-f]{32}\n")


class AuthenticationError(ValueError):
    """The other end does not have the key, or the data was changed."""


class Authenticator:
    """The seal of some data for one purpose; both ends know the `parts`, which come first."""

    def __init__(self, key: str, purpose: bytes, *parts: bytes) -> None:
        self._mac = hmac.new(key.encode(), digestmod=hashlib.sha256)
        for part in (purpose, *parts):
            self._mac.update(len(part).to_bytes(8, "big"))
            self._mac.update(part)

    def update(self, data: bytes) -> None:
        """Add data."""
        self._mac.update(data)

    @property
    def line(self) -> bytes:
        """The seal, which is sent after the data."""
        return self._mac.hexdigest().encode() + b"\n"

    def require(self, line: bytes) -> None:
        """Raise `AuthenticationError` unless this line is the seal."""
        if not hmac.compare_digest(line, self.line):
            raise AuthenticationError("the other end does not have the key of this call")


def call_key(secret: str, rdzv_id: str) -> str:
    """Return the key of calls with this rdzv_id."""
    return hmac.new(secret.encode(), b"elasticjob call\0" + rdzv_id.encode(), hashlib.sha256).hexdigest()


def require_challenge(line: bytes) -> bytes:
    """Return the line if it is a challenge; raise `AuthenticationError` otherwise."""
    if not _CHALLENGE.fullmatch(line):
        raise AuthenticationError("the other end sent no challenge; install the same version of elasticjob on both")
    return line
