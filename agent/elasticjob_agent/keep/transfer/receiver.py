"""The side of a transfer that gets the part: it names what is missing, writes what comes, and compares checksums.

The peer chose the names and the sizes; the codec and the receipt have checked them. No more bytes are read than were
offered. A transfer that ends early leaves what has come in the receipt, and the next one goes on from there.
"""

from collections.abc import Sequence

from elasticjob_agent.keep.transfer.errors import FrameError
from elasticjob_agent.keep.transfer.frames import Bad, Have, Sums, Want
from elasticjob_agent.keep.transfer.sender import reading_limit_s
from elasticjob_agent.keep.transfer.session import Session, unexpected
from elasticjob_agent.keep.volume.receipt import Receipt

_BUFFER_BYTES = 1 << 20


def receive_part(session: Session, receipt: Receipt) -> Have | Bad:
    """Receive what is missing, and return the answer that the sender got: HAVE if the part is held now.

    Raises:
        TransferError: the connection cannot be used any more.
        VolumeError: what came cannot be written.
    """
    offsets = receipt.offsets
    session.send(Want(offsets))
    _receive_files(session, receipt)
    crcs = _receive_sums(session, receipt, offsets)
    answer = Have() if receipt.finish(crcs) else Bad(receipt.bad)
    session.send(answer)
    return answer


def _receive_files(session: Session, receipt: Receipt) -> None:
    buffer = memoryview(bytearray(_BUFFER_BYTES))
    for number, ((_, size), offset) in enumerate(zip(receipt.files, receipt.offsets, strict=True)):
        left = size - offset
        while left:
            count = session.connection.read_into(buffer[: min(left, len(buffer))])
            receipt.write(number, buffer[:count])
            left -= count


def _receive_sums(session: Session, receipt: Receipt, offsets: Sequence[int]) -> tuple[int | None, ...]:
    sums = session.receive(within_s=reading_limit_s(receipt.files, offsets))
    if not isinstance(sums, Sums):
        raise unexpected(sums)
    if len(sums.crcs) != len(offsets):
        raise FrameError(f"SUMS of {len(sums.crcs)} files for a part of {len(offsets)}")
    for crc, offset in zip(sums.crcs, offsets, strict=True):
        if crc is None and (offset or not session.connection.is_encrypted):
            raise FrameError("SUMS without the checksum of a file that needs one")
    return sums.crcs
