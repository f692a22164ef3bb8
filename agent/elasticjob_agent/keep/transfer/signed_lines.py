"""The control lines of a session: each is signed with its direction and its number, so none can be used again.

A message is cut into lines of at most 64 KiB. A line begins with `+` if more of the message follows, else with `.`.
A line that is repeated, left out, sent back to its author or taken from another session has a wrong signature.
"""

import hashlib
import hmac

from elasticjob_agent.keep.transfer.errors import FrameError
from elasticjob_agent.keep.transfer.frames import MAX_MESSAGE_BYTES
from elasticjob_agent.rendezvous.protocol.link_handshake import Peer

MAX_LINE_BYTES = 1 << 16
_SIGNATURE_BYTES = 64
_MORE, _LAST = b"+", b"."
_CHUNK_BYTES = MAX_LINE_BYTES - _SIGNATURE_BYTES - len(_MORE) - len(b" \n")


class _LineSigner:
    """Signs the lines of one direction, in their order."""

    def __init__(self, key: bytes, side: Peer) -> None:
        self._key = key
        self._side = side.value
        self._number = 0

    def sign(self, text: bytes) -> bytes:
        """Return the signature of the next line, as hex digits."""
        signed = b"\0".join((self._side, b"%d" % self._number, text))
        self._number += 1
        return hmac.new(self._key, signed, hashlib.sha256).hexdigest().encode()


class OutgoingLines:
    """The lines that one side sends."""

    def __init__(self, key: bytes, side: Peer) -> None:
        self._signer = _LineSigner(key, side)

    def encode(self, message: bytes) -> bytes:
        """Return the signed lines of a message, which has no end of line in it."""
        starts = range(0, max(1, len(message)), _CHUNK_BYTES)
        return b"".join(self._line(message, start) for start in starts)

    def _line(self, message: bytes, start: int) -> bytes:
        end = start + _CHUNK_BYTES
        text = (_MORE if end < len(message) else _LAST) + message[start:end]
        return text + b" " + self._signer.sign(text) + b"\n"


class IncomingLines:
    """The lines that one side receives; `side` is the one that sends them."""

    def __init__(self, key: bytes, side: Peer) -> None:
        self._signer = _LineSigner(key, side)
        self._begun = bytearray()

    def take(self, line: bytes) -> bytes | None:
        """Return the message that this line ends, None if more follows; raise FrameError for a line that is refused.

        After an error the session cannot be used.
        """
        text, space, signature, end = line[:-66], line[-66:-65], line[-65:-1], line[-1:]
        is_formed = len(line) <= MAX_LINE_BYTES and (space, end) == (b" ", b"\n") and text[:1] in {_MORE, _LAST}
        if not is_formed or not hmac.compare_digest(signature, self._signer.sign(text)):
            raise FrameError("a control line that is not signed for its place in this session")
        if len(self._begun) + len(text) > MAX_MESSAGE_BYTES + len(_MORE):
            raise FrameError(f"a message of more than {MAX_MESSAGE_BYTES} bytes")
        self._begun += text[1:]
        if text[:1] == _MORE:
            return None
        message, self._begun = bytes(self._begun), bytearray()
        return message
