"""PURE: the one line that both ends of a link say first: which job, which slot, which incarnation, and a nonce.

Whoever reads it is on the network and may be anybody: the line is bounded, and what is not exactly of this form
is refused. A seal with the job's secret belongs here as its last word, made by `encode` and checked by `decode`.
"""

import re
from dataclasses import dataclass
from urllib.parse import quote, unquote

from elasticjob_agent.rendezvous.link import Heard
from elasticjob_api.errors import RecordError
from elasticjob_api.world import Member

MOST_BYTES = 4096
PORTS = range(1, 0x10000)
_MOST_DIGITS = 5
_FORM = re.compile(rb"elasticjob-link/1 ([!-~]{1,3000}) ([0-9a-f]{4}) ([0-9a-f]{8}) ([0-9a-f]{8})\n")


@dataclass(frozen=True, slots=True)
class Hello:
    """Who speaks; `job` is the job's prefix, `nonce` is new for every link, and recognises a link to oneself."""

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
    if not host or len(port) > _MOST_DIGITS or not (port.isascii() and port.isdigit()) or int(port) not in PORTS:
        return None
    return Address(host.strip("[]"), int(port))


def encode(hello: Hello) -> bytes:
    """The line."""
    slot, incarnation = hello.member.token[:4], hello.member.incarnation
    return f"elasticjob-link/1 {quote(hello.job, safe='/')} {slot} {incarnation} {hello.nonce}\n".encode()


def decode(line: bytes) -> Hello:
    """Who speaks; RecordError when the line is not a hello."""
    match = _FORM.fullmatch(line)
    if match is None:
        raise RecordError(f"not a hello of a link: {line[:40]!r}")
    job, slot, incarnation, nonce = (word.decode("ascii") for word in match.groups())
    return Hello(unquote(job), Member(int(slot, 16), incarnation), nonce)


def judge(answer: Hello, *, mine: Hello, meant: Member) -> Heard:
    """Whose answer this is to a dial that meant `meant` of the own job."""
    if answer == mine:
        return Heard.OWN
    return Heard.THEIRS if (answer.job, answer.member) == (mine.job, meant) else Heard.OTHER
