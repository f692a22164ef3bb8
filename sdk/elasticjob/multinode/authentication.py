"""PURE: what shows on a connection that its other end has the call's key, and that no byte was changed on the way.

As with multiprocessing's `authkey`, each end draws a challenge and the other one answers it with an HMAC. Here the
HMAC covers the data too, so nothing is unpickled that the other end has not sent.
"""

import hashlib
import hmac
import re

LINE_BYTES = 65
"""A seal: 64 hexadecimal digits and a newline."""
CHALLENGE_BYTES = 33
_CHALLENGE = re.compile(rb"[0-9a-f]{32}\n")


class AuthenticationError(ValueError):
    """The other end does not have the key, or the data were changed."""


class Authenticator:
    """Of some data, for one purpose; the `parts` are known to both ends and come first."""

    def __init__(self, key: str, purpose: bytes, *parts: bytes) -> None:
        self._mac = hmac.new(key.encode(), digestmod=hashlib.sha256)
        for part in (purpose, *parts):
            self._mac.update(len(part).to_bytes(8, "big"))
            self._mac.update(part)

    def update(self, data: bytes) -> None:
        """More of the data."""
        self._mac.update(data)

    @property
    def line(self) -> bytes:
        """What is sent behind the data."""
        return self._mac.hexdigest().encode() + b"\n"

    def require(self, line: bytes) -> None:
        """Raise `AuthenticationError` unless this line is the seal."""
        if not hmac.compare_digest(line, self.line):
            raise AuthenticationError("it does not have the key of this call")


def call_key(secret: str, rdzv_id: str) -> str:
    """The key of calls under this name."""
    return hmac.new(secret.encode(), b"elasticjob call\0" + rdzv_id.encode(), hashlib.sha256).hexdigest()


def require_challenge(line: bytes) -> bytes:
    """The line, if it is a challenge; raises `AuthenticationError`."""
    if not _CHALLENGE.fullmatch(line):
        raise AuthenticationError("it did not begin with a challenge; is its elasticjob of this version?")
    return line
