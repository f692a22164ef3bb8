"""One dial: connect, read the challenge, send a hello, read the answer; each result is one `DialOutcome`.

A dial takes at most a few seconds, reads at most two lines, and raises nothing. An error of the network proves nothing,
and neither does an answer that is not signed with the job's key. Sockets are close-on-exec, as Python makes them.
"""

import asyncio
from dataclasses import dataclass

from elasticjob_agent.rendezvous.protocol import link_handshake
from elasticjob_agent.rendezvous.protocol.crash_proof import DialOutcome
from elasticjob_agent.rendezvous.protocol.link_handshake import MAX_BYTES, Address, Authenticator, Hello, Peer
from elasticjob_api.errors import RecordError
from elasticjob_api.rendezvous_state import Member

DIAL_TIMEOUT_S = 2.0
"""Seconds for the connection and the answer together."""


@dataclass(frozen=True, slots=True)
class DialResult:
    """The outcome, and the link if the expected member answered."""

    outcome: DialOutcome
    reader: asyncio.StreamReader | None = None
    writer: asyncio.StreamWriter | None = None

    def close(self) -> None:
        """Close the link, if there is one."""
        if self.writer is not None:
            self.writer.transport.abort()


async def dial(
    address: Address, mine: Hello, peer: Member, key: bytes, *, within_s: float = DIAL_TIMEOUT_S
) -> DialResult:
    """Dial the listener of `peer` at `address`; `key` is the job's."""
    try:
        async with asyncio.timeout(within_s):
            return await _dial(address, mine, peer, key)
    except ConnectionRefusedError:
        return DialResult(DialOutcome.REFUSED)
    except OSError:  # also the time-out
        return DialResult(DialOutcome.TIMEOUT)


async def _dial(address: Address, mine: Hello, peer: Member, key: bytes) -> DialResult:
    reader, writer = await asyncio.open_connection(address.host, address.port, limit=MAX_BYTES)
    outcome = DialOutcome.TIMEOUT
    try:
        outcome = DialOutcome.OWN if is_own(writer) else await _handshake(reader, writer, mine, peer, key)
    finally:
        if outcome is not DialOutcome.PEER:
            writer.transport.abort()
    return DialResult(outcome, reader, writer) if outcome is DialOutcome.PEER else DialResult(outcome)


def is_own(writer: asyncio.StreamWriter) -> bool:
    """Whether a socket is connected to itself: the kernel can choose the dialed local port as the source port."""
    return bool(writer.get_extra_info("sockname") == writer.get_extra_info("peername"))


async def _handshake(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, mine: Hello, peer: Member, key: bytes
) -> DialOutcome:
    try:
        challenge = link_handshake.decode_challenge(await reader.readuntil(b"\n"))
        writer.write(link_handshake.encode(mine, Authenticator(key, Peer.DIALS, challenge)))
        answer = link_handshake.decode(await reader.readuntil(b"\n"), Authenticator(key, Peer.ANSWERS, mine.nonce))
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, ConnectionError, RecordError):
        return DialOutcome.TIMEOUT  # a reset here is no refusal: a process listened
    return link_handshake.verify(answer, mine=mine, expected=peer)


async def wait_ended(reader: asyncio.StreamReader) -> None:
    """Wait for the end of a link; a link with data after its hello has ended as well."""
    try:
        await reader.read(1)
    except OSError:
        return  # a reset, or a time-out of the kernel: an end like any other
