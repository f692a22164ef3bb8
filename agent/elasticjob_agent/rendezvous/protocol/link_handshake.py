"""PURE: the first lines of both ends of a link: a challenge, then the identity, sealed with the job's key.

The peer is on the network and may be a stranger. So a line is bounded. It is refused if it is not exactly of its form,
or not sealed for this very link (with the nonce that the reader has just drawn). The listener sends its challenge
first, and nothing else to a peer that cannot seal a hello with it. Agents without a key, or of a version before it,
never understand each other here, and then the lease alone decides.
"""

import hashlib
import hmac
import re
from dataclasses import dataclass
from enum import Enum
from urllib.parse import quote, unquote

from elasticjob_agent.rendezvous.protocol.crash_proof import DialOutcome
from elasticjob_api.errors import RecordError
from elasticjob_api.rendezvous_state import Member

MAX_BYTES = 4096
PORTS = range(1, 0x10000)
_MAX_DIGITS = 5
_CHALLENGE = re.compile(rb"elasticjob-link/2 ([0-9a-f]{16})\n")
_FORM = re.compile(rb"(elasticjob-link/2 ([!-~]{1,3000}) ([0-9a-f]{4}) ([0-9a-f]{8}) ([0-9a-f]{16})) ([0-9a-f]{64})\n")


class Peer(Enum):
    """The side that seals: no line of one side is ever taken for one of the other."""

    DIALS = b"dials"
    ANSWERS = b"answers"


@dataclass(frozen=True, slots=True)
class Authenticator:
    """What a line is sealed with: the job's key, the side that says it, and the nonce of the side that reads it."""

    key: bytes
    side: Peer
    challenge: str

    def sign(self, text: bytes) -> bytes:
        """The seal of a text, as hex digits."""
        said = b"\0".join((self.side.value, self.challenge.encode(), text))
        return hmac.new(self.key, said, hashlib.sha256).hexdigest().encode()


@dataclass(frozen=True, slots=True)
class Hello:
    """Who speaks; `job` is the job's prefix, `nonce` is new for every link."""

    job: str
    member: Member
    nonce: str


@dataclass(frozen=True, slots=True)
class Address:
    """Where a listener is."""

    host: str
    port: int

    def __str__(self) -> str:
        """`host:port`; an IPv6 address in brackets."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_address(text: str) -> Address | None:
    """The address in `text` (as `str` writes it); None if there is none."""
    host, _, port = text.rpartition(":")
    if not host or len(port) > _MAX_DIGITS or not (port.isascii() and port.isdigit()) or int(port) not in PORTS:
        return None
    return Address(host.strip("[]"), int(port))


def encode_challenge(nonce: str) -> bytes:
    """Return the listener's first line."""
    return f"elasticjob-link/2 {nonce}\n".encode()


def decode_challenge(line: bytes) -> str:
    """The listener's nonce; RecordError when the line is no challenge."""
    match = _CHALLENGE.fullmatch(line)
    if match is None:
        raise RecordError(f"not the challenge of a link: {line[:40]!r}")
    return match[1].decode("ascii")


def encode(hello: Hello, authenticator: Authenticator) -> bytes:
    """The line."""
    slot, incarnation = hello.member.token[:4], hello.member.incarnation
    text = f"elasticjob-link/2 {quote(hello.job, safe='/')} {slot} {incarnation} {hello.nonce}".encode()
    return text + b" " + authenticator.sign(text) + b"\n"


def decode(line: bytes, authenticator: Authenticator) -> Hello:
    """Who speaks; RecordError when the line is not a hello, or not so sealed."""
    match = _FORM.fullmatch(line)
    if match is None:
        raise RecordError(f"not a hello of a link: {line[:40]!r}")
    text, job, slot, incarnation, nonce, sealed = match.groups()
    if not hmac.compare_digest(sealed, authenticator.sign(text)):  # in the same time wherever they differ
        raise RecordError("a hello that is not sealed with this job's key for this link")
    return Hello(unquote(job.decode("ascii")), Member(int(slot, 16), incarnation.decode()), nonce.decode())


def verify(answer: Hello, *, mine: Hello, expected: Member) -> DialOutcome:
    """Whose answer this is to a dial that meant `expected` of the own job."""
    return DialOutcome.PEER if (answer.job, answer.member) == (mine.job, expected) else DialOutcome.OTHER
