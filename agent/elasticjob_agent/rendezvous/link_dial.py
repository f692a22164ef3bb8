"""One dial: connect, say hello, hear who answers; every way in which that may end is one `Heard`.

It never takes longer than a few seconds, reads no more than one line, and raises nothing: whatever goes wrong on
the network proves nothing. Sockets are close-on-exec, as Python makes them.
"""

import asyncio
from dataclasses import dataclass

from elasticjob_agent.rendezvous import link_hello
from elasticjob_agent.rendezvous.link import Heard
from elasticjob_agent.rendezvous.link_hello import MOST_BYTES, Address, Hello
from elasticjob_api.errors import RecordError
from elasticjob_api.world import Member

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


async def dial(address: Address, mine: Hello, meant: Member, *, within_s: float = DIAL_S) -> Dialed:
    """Dial the listener that `meant` told."""
    try:
        async with asyncio.timeout(within_s):
            return await _dial(address, mine, meant)
    except ConnectionRefusedError:
        return Dialed(Heard.REFUSED)
    except OSError:  # also the time-out
        return Dialed(Heard.NOTHING)


async def _dial(address: Address, mine: Hello, meant: Member) -> Dialed:
    reader, writer = await asyncio.open_connection(address.host, address.port, limit=MOST_BYTES)
    heard = Heard.NOTHING
    try:
        heard = await _greet(reader, writer, mine, meant)
    finally:
        if heard is not Heard.THEIRS:
            writer.transport.abort()
    return Dialed(heard, reader, writer) if heard is Heard.THEIRS else Dialed(heard)


async def _greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, mine: Hello, meant: Member) -> Heard:
    writer.write(link_hello.encode(mine))
    try:
        answer = link_hello.decode(await reader.readuntil(b"\n"))
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, ConnectionError, RecordError):
        return Heard.NOTHING  # a reset here is no refusal: somebody listened
    return link_hello.judge(answer, mine=mine, meant=meant)


async def ended(reader: asyncio.StreamReader) -> None:
    """Wait for the end of a link; one that says anything after its hello has ended as well."""
    try:
        await reader.read(1)
    except OSError:
        return  # a reset, or the kernel gave the peer up: an end like any other
