"""The side of a transfer that has the part: it offers the files, and sends what the receiver wants.

A file that is sent whole is read once: its checksum is that of the bytes that were sent. There is one with TLS, too,
which protects the bytes of one connection: by the checksums the keepers find files that differ or have changed. A file
that the receiver has begun on another connection may come from another holder, whose copy may differ.
"""

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from elasticjob_agent.keep.transfer.connection import STALL_S
from elasticjob_agent.keep.transfer.errors import FrameError
from elasticjob_agent.keep.transfer.frames import Bad, Dead, FileList, Full, Have, Later, Offer, Sums, Want
from elasticjob_agent.keep.transfer.part_file import READ_BYTES, open_part_file
from elasticjob_agent.keep.transfer.session import Session, unexpected
from elasticjob_agent.keep.transfer.throttle import Throttle
from elasticjob_agent.keep.volume.errors import PartChangedError
from elasticjob_agent.keep.volume.held_part import HeldPart
from elasticjob_api.kept_steps import Lineage

_SLOWEST_READ = 128 << 20
"""Bytes a second at which a file is read once more, on a machine with much other work."""


@dataclass(frozen=True, slots=True)
class OfferResult:
    """The receiver's answer, and the checksums of all files if they are known now."""

    answer: Have | Bad | Later | Full | Dead
    crcs: tuple[int, ...] | None = None


def reading_limit_s(files: FileList, offsets: Sequence[int]) -> float:
    """Return the most seconds that the other end is silent while it reads the files with an offset once more."""
    size = sum(size for (_, size), offset in zip(files, offsets, strict=True) if offset)
    return STALL_S + size / _SLOWEST_READ


OnSent = Callable[[int, int], None]
"""Gets how many bytes of the part the receiver had at first, and how many it has been sent by now, those included."""


def offer_part(
    session: Session,
    held: HeldPart,
    throttle: Throttle,
    *,
    lineage: Lineage | None = None,
    on_sent: OnSent = lambda _kept, _sent: None,
) -> OfferResult:
    """Offer a part, send what the receiver wants, and return its answer; `lineage` is the round of this node.

    Raises:
        VolumeError: the part is gone, or a file is not as it was when the part was published.
        TransferError: the connection cannot be used any more.
    """
    files = held.files
    session.send(Offer(held.part, files, lineage))
    match session.receive():
        case Want(offsets):
            return _PartSender(session, held, files, throttle, on_sent).send(offsets)
        case Have() | Later() | Full() | Dead() as answer:
            return OfferResult(answer)
        case message:
            raise unexpected(message)


class _PartSender:
    """Sends the files of one part, one after the other, and then their checksums."""

    def __init__(self, session: Session, held: HeldPart, files: FileList, throttle: Throttle, on_sent: OnSent) -> None:
        self._session = session
        self._connection = session.connection
        self._held = held
        self._files = files
        self._known: Sequence[int | None] = held.crcs or (None,) * len(files)
        self._throttle = throttle
        self._on_sent = on_sent
        self._kept = self._sent = 0
        self._buffer = memoryview(bytearray(READ_BYTES))

    def send(self, offsets: Sequence[int]) -> OfferResult:
        sizes = [size for _, size in self._files]
        if len(offsets) != len(sizes) or any(offset > size for offset, size in zip(offsets, sizes, strict=True)):
            raise FrameError("WANT with offsets that are not in the files")
        self._kept = self._sent = sum(offsets)
        self._on_sent(self._kept, self._sent)
        crcs = [self._send_file(number, offset) for number, offset in enumerate(offsets)]
        for number, offset in enumerate(offsets):
            if offset and crcs[number] is None:
                crcs[number] = self._read_crc(number)
        if not self._held.is_unchanged():  # before the receiver accepts it
            raise PartChangedError(f"a file of {self._held.part} was changed after it was published")
        self._session.send(Sums(tuple(crcs)))
        return self._receive_answer(offsets, crcs)

    def _receive_answer(self, offsets: Sequence[int], crcs: Sequence[int | None]) -> OfferResult:
        known = tuple(crc for crc in crcs if crc is not None)
        match self._session.receive(within_s=reading_limit_s(self._files, offsets)):
            case Have() as answer:
                return OfferResult(answer, known if len(known) == len(crcs) else None)
            case Bad(numbers) as answer:
                self._check_unchanged(numbers, crcs)
                return OfferResult(answer)
            case message:
                raise unexpected(message)

    def _check_unchanged(self, numbers: Sequence[int], crcs: Sequence[int | None]) -> None:
        """Raise PartChangedError if a file that arrived with other bytes has other bytes here, too."""
        for number in numbers:
            if number >= len(crcs):
                raise FrameError("BAD with the number of no file")
            if crcs[number] is not None and self._read_crc(number) != crcs[number]:
                name = self._files[number][0]
                raise PartChangedError(
                    f"the file {name!r:.120} of {self._held.part} was changed after it was published"
                )

    def _send_file(self, number: int, offset: int) -> int | None:
        """Send a file from `offset` on; return its checksum if it was known or is now."""
        size, known = self._files[number][1], self._known[number]
        computed = 0 if known is None and not offset else None
        while offset < size:
            count = min(self._throttle.piece_bytes, size - offset)
            self._throttle.wait(count)
            # It is open for one piece only: a part that is dropped during the wait keeps no memory.
            with open_part_file(self._held, number, self._buffer) as file:
                # Without sendfile: from a file in memory it takes longer than a copy that stays in the cache.
                for view in file.read(offset, count):
                    if computed is not None:
                        computed = zlib.crc32(view, computed)
                    self._connection.write(view)
                    self._count_sent(len(view))
            offset += count
        return computed if known is None else known

    def _count_sent(self, count: int) -> None:
        self._sent += count
        self._on_sent(self._kept, self._sent)

    def _read_crc(self, number: int) -> int:
        with open_part_file(self._held, number, self._buffer) as file:
            return file.crc(0, self._files[number][1])
