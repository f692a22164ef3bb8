"""Changed conversations on sessions with a keeper: a peer that has the job's secret may send anything.

Each session proves its identity first. Then it sends the messages of a right conversation, of which most have a fault:
other bytes, other numbers, another order, another signature. All choices come from one random generator.
"""

import contextlib
import random
import re
import socket
import time
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from elasticjob_agent.keep.rules.commit import SafePoint
from elasticjob_agent.keep.transfer import commit_frames, frames
from elasticjob_agent.keep.transfer.errors import TransferError
from elasticjob_agent.keep.transfer.frames import Get, Offer, Sums, Want
from elasticjob_agent.keep.transfer.handshake import Purpose
from elasticjob_agent.keep.transfer.session import KeeperCredentials, Session, connect, dial
from elasticjob_agent.keep.volume.paths import KeptPart
from elasticjob_agent.rendezvous.protocol.link_handshake import Address
from elasticjob_api.kept_steps import KeptStep, Lineage

_PARTS = 4
_FIRST_NUMBER = 1_000_000
"""Steps that no worker has reached: their parts are taken until one is committed."""
_NUMBER = re.compile(rb"[0-9]+")
_NUMBERS = (b"0", b"1", b"-1", b"65535", b"65536", b"999999999999999", b"1e9", b"4611686018427387904", b"9" * 400)
_TEXTS = (b"..", b"/", b"\\u0000", b"\\ud800", b"\n", b"{", b"[" * 2000, b'"', b"\xff", b"a" * 70_000, b"null", b"NaN")
_ESCAPES = (b'"../../x"', b'"../../../x"')
"""Names of files that would be out of the part: one in the volume, and one beside it."""


@dataclass(frozen=True, slots=True)
class Piece:
    """One message, or raw bytes."""

    data: bytes
    is_message: bool = True


class SessionFuzzer:
    """Opens sessions with the keeper at `address`, as a member of the round of this lineage."""

    def __init__(
        self, address: Address, credentials: KeeperCredentials, lineage: Lineage, choices: random.Random
    ) -> None:
        self._address = address
        self._credentials = credentials
        self._lineage = lineage
        self._choices = choices

    def run(self, *, sessions: int | None = None, within_s: float | None = None) -> int:
        """Open so many sessions, or as many as fit into the time; return how many pieces were sent."""
        began_s, count, sent = time.monotonic(), 0, 0
        while (share := _share(count, sessions) + _share(time.monotonic() - began_s, within_s)) < 1:
            # A false commit ends the round for all parts that come later.
            sent += self.run_one((Purpose.PUT, Purpose.GET) if share < 0.75 else tuple(Purpose))
            count += 1
        return sent

    def run_one(self, purposes: Sequence[Purpose]) -> int:
        """Open one session for one of these purposes and end it; return how many pieces were sent."""
        purpose = self._choices.choice(purposes)
        pieces = self._spoil(self._conversation(purpose))
        connection = connect(self._address, stall_s=10.0)
        sent = 0
        try:
            session = dial(connection, self._credentials, purpose, random_hex=self._random_hex)
            for piece in pieces:
                self._send(session, piece)
                sent += 1
            if self._choices.random() < 0.5:
                _read_to_end(session)
        except TransferError:
            pass  # the keeper has ended the session
        finally:
            connection.close()
        return sent

    def _random_hex(self) -> str:
        return f"{self._choices.getrandbits(32):08x}"

    def _send(self, session: Session, piece: Piece) -> None:
        is_signed = piece.is_message and self._choices.random() < 0.95
        data = session.outgoing.encode(piece.data.replace(b"\n", b" ")) if is_signed else piece.data
        session.connection.write(data)

    # --- right conversations -----------------------------------------------------------------------------------------

    def _conversation(self, purpose: Purpose) -> list[Piece]:
        step = KeptStep(self._lineage, _FIRST_NUMBER + self._choices.randrange(3), _PARTS)
        part = KeptPart(step, self._choices.randrange(_PARTS))
        data = self._choices.randbytes(self._choices.randrange(200))
        match purpose:
            case Purpose.PUT:
                offer = Offer(part, (("a", len(data)), ("b/c", 0)), self._lineage)
                name = self._choices.choice((*[b'"a"'] * 4, *_ESCAPES))
                offered = Piece(frames.encode(offer).replace(b'"a"', name))
                return [offered, Piece(data, is_message=False), _piece(Sums((zlib.crc32(data), 0)))]
            case Purpose.GET:
                return [_piece(Get(part, 1)), _piece(Want((0, 0))), _piece(frames.Bad((0,)))]
            case Purpose.COMMIT:
                point = SafePoint(self._lineage, step, step)
                return [Piece(commit_frames.encode_safe_point(point)) for _ in range(3)]

    # --- faults ------------------------------------------------------------------------------------------------------

    def _spoil(self, pieces: list[Piece]) -> list[Piece]:
        """Return a conversation with a fault, or now and then without one."""
        for _ in range(self._choices.choice((0, 1, 1, 2, 4))):
            index = self._choices.randrange(len(pieces))
            fault = self._choices.choice((_repeat, _leave_out, _swap, None, None, None))
            if fault is not None:
                pieces = fault(pieces, index)
            else:
                changed = self._change(pieces[index].data)
                pieces = [*pieces[:index], Piece(changed, pieces[index].is_message), *pieces[index + 1 :]]
        return pieces

    def _change(self, data: bytes) -> bytes:
        """Return other bytes."""
        begin = self._choices.randrange(len(data) + 1)
        end = min(len(data), begin + self._choices.randrange(9))
        changes: Sequence[Callable[[], bytes]] = (
            lambda: data[:begin] + data[end:],
            lambda: data[:begin] + self._choices.randbytes(4) + data[end:],
            lambda: data[:begin] + self._choices.choice(_TEXTS) + data[end:],
            lambda: data[:end] + data[begin:] * self._choices.randrange(50),
            lambda: self._choices.randbytes(self._choices.randrange(70_000)),
            lambda: _NUMBER.sub(lambda _: self._choices.choice(_NUMBERS), data),
            lambda: self._with_number(data),
        )
        return self._choices.choice(changes)()

    def _with_number(self, data: bytes) -> bytes:
        """Exchange one number."""
        found = list(_NUMBER.finditer(data))
        if not found:
            return data
        match = self._choices.choice(found)
        return data[: match.start()] + self._choices.choice(_NUMBERS) + data[match.end() :]


def _share(done: float, of: float | None) -> float:
    return 0.0 if of is None else done / of


def _read_to_end(session: Session) -> None:
    """Let the keeper read all that was sent, and raise TransferError; a close might lose the last bytes."""
    with contextlib.suppress(OSError):
        session.connection._socket.shutdown(socket.SHUT_WR)
    while True:
        session.receive()


def _piece(message: frames.Message) -> Piece:
    return Piece(frames.encode(message))


def _repeat(pieces: list[Piece], index: int) -> list[Piece]:
    return [*pieces[: index + 1], *pieces[index:]]


def _leave_out(pieces: list[Piece], index: int) -> list[Piece]:
    return [*pieces[:index], *pieces[index + 1 :]] or pieces


def _swap(pieces: list[Piece], index: int) -> list[Piece]:
    return [*pieces[:index], *reversed(pieces[index:])]
