"""The first lines of both ends of a link: a challenge, then the identities, signed with the job's key.

The peer is on the network and may be a stranger, so a line has a maximum length. A line is refused if its form differs.
It is also refused if it is not signed for this link, with the nonce that its reader has just generated. The listener
sends its challenge first, and nothing else to a peer that cannot sign a hello with it. Agents without a key, or of a
version without challenges, get no link; then the lease alone decides.
"""

import hashlib
import hmac
import re
from dataclasses import dataclass
from enum import Enum
from urllib.parse import quote, unquote

from elasticjob_agent.rendezvous.protocol.crash_proof import DialOutcome
from elasticjob_api.errors import RecordError
from elasticjob_api.rendezvous_state import Member, decode_members

MAX_BYTES = 4096
PORTS = range(1, 0x10000)
_MAX_DIGITS = 5
_CHALLENGE = re.compile(rb"elasticjob-link/2 ([0-9a-f]{16})\n")
_FORM = re.compile(rb"(elasticjob-link/2 ([!-~]{1,3000}) ([0-9a-f]{4}) ([0-9a-f]{8}) ([0-9a-f]{16})) ([0-9a-f]{64})\n")


class Peer(Enum):
    """The side that signs: a line of one side is never accepted from the other."""

    DIALS = b"dials"
    ANSWERS = b"answers"


@dataclass(frozen=True, slots=True)
class Authenticator:
    """Signs lines: with the job's key, the side that sends the line, and the nonce of the side that reads it."""

    key: bytes
    side: Peer
    challenge: str

    def sign(self, text: bytes) -> bytes:
        """Return the signature of a text, as hex digits."""
        signed = b"\0".join((self.side.value, self.challenge.encode(), text))
        return hmac.new(self.key, signed, hashlib.sha256).hexdigest().encode()


@dataclass(frozen=True, slots=True)
class Hello:
    """The sender's identity; `job` is the job's prefix, `nonce` is new for each link."""

    job: str
    member: Member
    nonce: str


@dataclass(frozen=True, slots=True)
class Address:
    """The address of a listener."""

    host: str
    port: int

    def __str__(self) -> str:
        """Return `host:port`, with brackets around an IPv6 address."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_address(text: str) -> Address | None:
    """Return the address in `text`, as `str` writes it; None if it has none."""
    host, _, port = text.rpartition(":")
    if not host or len(port) > _MAX_DIGITS or not (port.isascii() and port.isdigit()) or int(port) not in PORTS:
        return None
    return Address(host.strip("[]"), int(port))


def encode_challenge(nonce: str) -> bytes:
    """Return the listener's first line."""
    return f"elasticjob-link/2 {nonce}\n".encode()


def decode_challenge(line: bytes) -> str:
    """Return the listener's nonce; raise RecordError if the line is not a challenge."""
    match = _CHALLENGE.fullmatch(line)
    if match is None:
        raise RecordError(f"not the challenge of a link: {line[:40]!r}")
    return match[1].decode("ascii")


def encode(hello: Hello, authenticator: Authenticator) -> bytes:
    """Return the signed line."""
    slot, incarnation = hello.member.token[:4], hello.member.incarnation
    text = f"elasticjob-link/2 {quote(hello.job, safe='/')} {slot} {incarnation} {hello.nonce}".encode()
    return text + b" " + authenticator.sign(text) + b"\n"


def decode(line: bytes, authenticator: Authenticator) -> Hello:
    """Return the sender's identity; raise RecordError if the line is not a hello, or not signed for this link."""
    match = _FORM.fullmatch(line)
    if match is None:
        raise RecordError(f"not a hello of a link: {line[:40]!r}")
    text, job, slot, incarnation, nonce, sealed = match.groups()
    if not hmac.compare_digest(sealed, authenticator.sign(text)):  # takes the same time wherever they differ
        raise RecordError("a hello that is not signed with this job's key for this link")
    (member,) = decode_members(slot + incarnation)
    return Hello(unquote(job.decode("ascii")), member, nonce.decode())


def verify(answer: Hello, *, mine: Hello, expected: Member) -> DialOutcome:
    """Return whether the answer comes from the `expected` member of the own job, or from another."""
    return DialOutcome.PEER if (answer.job, answer.member) == (mine.job, expected) else DialOutcome.OTHER
