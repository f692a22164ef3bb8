"""One open file of a held part, and its bytes; not a map of it: one that becomes shorter would end the process."""

import contextlib
import os
import zlib
from collections.abc import Iterator

from elasticjob_agent.keep.volume.errors import PartChangedError, translated
from elasticjob_agent.keep.volume.held_part import HeldPart

READ_BYTES = 1 << 18
"""The size of a buffer: it fits into a cache of the processor."""


class PartFile:
    """A file that is open for reading; its bytes are read into `buffer`, piece by piece."""

    def __init__(self, fd: int, buffer: memoryview) -> None:
        self.fd = fd
        self._buffer = buffer

    def read(self, offset: int, count: int) -> Iterator[memoryview]:
        """Yield these bytes; raise PartChangedError if the file ends before them, else a VolumeError."""
        end = offset + count
        while offset < end:
            view = self._buffer[: min(len(self._buffer), end - offset)]
            with translated("cannot read a file of a part"):
                found = os.preadv(self.fd, [view], offset)
            if not found:
                raise PartChangedError("a file became shorter while it was read")
            yield view[:found]
            offset += found

    def crc(self, offset: int, count: int, crc: int = 0) -> int:
        """Return the CRC-32 of these bytes, after those of which `crc` is the sum."""
        for view in self.read(offset, count):
            crc = zlib.crc32(view, crc)
        return crc


@contextlib.contextmanager
def open_part_file(held: HeldPart, number: int, buffer: memoryview) -> Iterator[PartFile]:
    """Open the file with this number, and close it at the end; raise PartChangedError."""
    fd = held.open_file(number)
    try:
        yield PartFile(fd, buffer)
    finally:
        os.close(fd)
