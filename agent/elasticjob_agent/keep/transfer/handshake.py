"""The first lines between two keepers: a challenge, then both identities, signed with the job's link secret.

The form follows the hello of a link, with a magic and a purpose of its own. So a line of a link is never accepted here,
nor a line of one purpose for another. With TLS the proof counts on its own connection alone. Both nonces, the purpose
and the run make the key of the session, which signs each later line. The listener sends its challenge first, and
nothing else to a peer that cannot sign a hello with it.
"""

import hashlib
import hmac
import re
from dataclasses import dataclass
from enum import Enum
from urllib.parse import quote, unquote

from elasticjob_agent.keep.transfer.errors import ForeignRunError, HandshakeError
from elasticjob_agent.rendezvous.protocol.link_handshake import Authenticator
from elasticjob_api.errors import RecordError
from elasticjob_api.rendezvous_state import Member, decode_members

MAX_LINE_BYTES = 4096
_MAGIC = "elasticjob-keep/1"
_CHALLENGE = re.compile(rb"elasticjob-keep/1 ([0-9a-f]{16})\n")
_FORM = re.compile(
    rb"(elasticjob-keep/1 (put|get|commit) ([!-~]{1,3000}) ([0-9a-f]{8}) ([0-9a-f]{4}) ([0-9a-f]{8}) ([0-9a-f]{16}))"
    rb" ([0-9a-f]{64})\n"
)
_SHOWN = 40


class Purpose(Enum):
    """The reason for which a keeper dials."""

    PUT = "put"
    """Give the other end a part."""
    GET = "get"
    """Fetch a part from the other end."""
    COMMIT = "commit"
    """Collect the other end's announcements, and send it what is committed."""


@dataclass(frozen=True, slots=True)
class KeeperIdentity:
    """The identity of a keeper: the job's prefix, the run, and the member whose volume it keeps."""

    job: str
    run: str
    member: Member


@dataclass(frozen=True, slots=True)
class KeeperHello:
    """The sender's identity and purpose; `nonce` is new for each connection."""

    purpose: Purpose
    identity: KeeperIdentity
    nonce: str


def encode_challenge(nonce: str) -> bytes:
    """Return the listener's first line."""
    return f"{_MAGIC} {nonce}\n".encode()


def decode_challenge(line: bytes) -> str:
    """Return the listener's nonce; raise HandshakeError if the line is not a challenge."""
    match = _CHALLENGE.fullmatch(line)
    if match is None:
        raise HandshakeError(f"not the challenge of a keeper: {line[:_SHOWN]!r}")
    return match[1].decode()


def encode_hello(hello: KeeperHello, authenticator: Authenticator) -> bytes:
    """Return the signed line."""
    who = hello.identity
    words = (_MAGIC, hello.purpose.value, quote(who.job, safe="/"), who.run, who.member.token[:4])
    text = " ".join((*words, who.member.incarnation, hello.nonce)).encode()
    return text + b" " + authenticator.sign(text) + b"\n"


def decode_hello(line: bytes, authenticator: Authenticator) -> KeeperHello:
    """Return the sender's hello; raise HandshakeError if it has another form, or is not signed for this connection."""
    match = _FORM.fullmatch(line)
    if match is None:
        raise HandshakeError(f"not a hello of a keeper: {line[:_SHOWN]!r}")
    text, purpose, job, run, slot, incarnation, nonce, signature = match.groups()
    if not hmac.compare_digest(signature, authenticator.sign(text)):  # takes the same time wherever they differ
        raise HandshakeError("a hello that is not signed with this job's secret for this connection")
    try:
        (member,) = decode_members(slot + incarnation)
    except RecordError as error:
        raise HandshakeError(f"a hello of no member: {error}") from error
    identity = KeeperIdentity(unquote(job.decode()), run.decode(), member)
    return KeeperHello(Purpose(purpose.decode()), identity, nonce.decode())


def check_peer(peer: KeeperIdentity, *, mine: KeeperIdentity) -> None:
    """Raise HandshakeError for a peer of another job, and ForeignRunError for one of another run."""
    if peer.job != mine.job:
        raise HandshakeError(f"the other end belongs to the job {peer.job[:_SHOWN]!r}")
    if peer.run != mine.run:
        raise ForeignRunError(f"the other end belongs to run {peer.run}, this keeper to run {mine.run}")


def check_answer(answer: KeeperHello, *, mine: KeeperHello, challenge: str) -> None:
    """Raise HandshakeError unless the answer belongs to this connection, this purpose, this job and this run."""
    if (answer.purpose, answer.nonce) != (mine.purpose, challenge):
        raise HandshakeError("an answer to another hello")
    check_peer(answer.identity, mine=mine.identity)


def bind_secret(secret: bytes, tls_binding: bytes) -> bytes:
    """Return the key of a proof that counts on one TLS connection alone; without TLS the secret itself."""
    if not tls_binding:
        return secret
    # Each job has a certificate of the authority. So a pod of another job could forward a proof from one TLS connection
    # to another one, and then read and change all bytes.
    return hmac.new(secret, f"{_MAGIC}\0tls\0".encode() + tls_binding, hashlib.sha256).digest()


def session_key(secret: bytes, challenge: str, hello: KeeperHello) -> bytes:
    """Return the key of the session that the dialing side began with `hello` after this challenge."""
    parts = ("session", hello.purpose.value, hello.identity.run, challenge, hello.nonce)
    return hmac.new(secret, "\0".join((_MAGIC, *parts)).encode(), hashlib.sha256).digest()
