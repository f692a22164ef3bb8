"""One dial: connect, hear the challenge, say hello, hear who answers; every way in which that may end is one `Heard`.

It never takes longer than a few seconds, reads no more than two lines, and raises nothing: whatever goes wrong on
the network proves nothing, and neither does an answer without the job's seal. Sockets are close-on-exec, as Python
makes them.
"""

import asyncio
from dataclasses import dataclass

from elasticjob_agent.rendezvous.protocol import link_handshake
from elasticjob_agent.rendezvous.protocol.crash_proof import Heard
from elasticjob_agent.rendezvous.protocol.link_handshake import MOST_BYTES, Address, Hello, Seal, Side
from elasticjob_api.errors import RecordError
from elasticjob_api.rendezvous_state import Member

DIAL_S = 2.0
"""For the connection and the answer together."""


@dataclass(frozen=True, slots=True)
class Dialed:
    """What was heard, and the link if it was the one that was meant."""

    heard: Heard
    reader: asyncio.StreamReader | None = None
    writer: asyncio.StreamWriter | None = None

    def hang_up(self) -> None:
        """Close the link, if it stands."""
        if self.writer is not None:
            self.writer.transport.abort()


async def dial(address: Address, mine: Hello, meant: Member, key: bytes, *, within_s: float = DIAL_S) -> Dialed:
    """Dial the listener that `meant` told; `key` is the job's."""
    try:
        async with asyncio.timeout(within_s):
            return await _dial(address, mine, meant, key)
    except ConnectionRefusedError:
        return Dialed(Heard.REFUSED)
    except OSError:  # also the time-out
        return Dialed(Heard.NOTHING)


async def _dial(address: Address, mine: Hello, meant: Member, key: bytes) -> Dialed:
    reader, writer = await asyncio.open_connection(address.host, address.port, limit=MOST_BYTES)
    heard = Heard.NOTHING
    try:
        heard = Heard.OWN if is_own(writer) else await _greet(reader, writer, mine, meant, key)
    finally:
        if heard is not Heard.THEIRS:
            writer.transport.abort()
    return Dialed(heard, reader, writer) if heard is Heard.THEIRS else Dialed(heard)


def is_own(writer: asyncio.StreamWriter) -> bool:
    """A socket that connected to itself: the kernel can give a dial to a dead local port that very port."""
    return bool(writer.get_extra_info("sockname") == writer.get_extra_info("peername"))


async def _greet(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, mine: Hello, meant: Member, key: bytes
) -> Heard:
    try:
        challenge = link_handshake.decode_challenge(await reader.readuntil(b"\n"))
        writer.write(link_handshake.encode(mine, Seal(key, Side.DIALS, challenge)))
        answer = link_handshake.decode(await reader.readuntil(b"\n"), Seal(key, Side.ANSWERS, mine.nonce))
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, ConnectionError, RecordError):
        return Heard.NOTHING  # a reset here is no refusal: somebody listened
    return link_handshake.judge(answer, mine=mine, meant=meant)


async def ended(reader: asyncio.StreamReader) -> None:
    """Wait for the end of a link; one that says anything after its hello has ended as well."""
    try:
        await reader.read(1)
    except OSError:
        return  # a reset, or the kernel gave the peer up: an end like any other
