"""A part that is being received: files that grow in order, so their sizes show where to go on.

A receipt belongs to the thread of one transfer. It outlives its transfer and its keeper; only `abandon`, a dead step or
missing room ends it. The part becomes held by one rename, after each file has its checksum.
"""

import contextlib
import os
import stat
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path

from elasticjob_agent.keep.volume.errors import PartRefused, translated
from elasticjob_agent.keep.volume.file_names import check_files, directories_of
from elasticjob_agent.keep.volume.paths import KeptPart
from elasticjob_agent.keep.volume.trash import TrashDir

_READ_BYTES = 1 << 20
_WRITE = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC


class Receipt:
    """One part that is being received.

    `offsets` has how much of each file is there. Write each file in order from there, then call `finish`.
    """

    def __init__(
        self,
        path: Path,
        part: KeptPart,
        files: Sequence[tuple[str, int]],
        *,
        trash: TrashDir,
        hold: Callable[["Receipt", Sequence[int | None]], None],
        release: Callable[["Receipt"], None],
    ) -> None:
        """Create the directories and read what is there already; raise VolumeError."""
        check_files(files)
        self.path = path
        self.part = part
        self.files = tuple(files)
        self.bad: tuple[int, ...] = ()
        """The files that the last `finish` found to be wrong. They are empty again."""
        self._trash = trash
        self._hold = hold
        self._release = release
        self._number, self._fd = -1, -1
        with translated(f"cannot receive {part}"):
            self._remove_foreign()
            self._make_directories()
            self._offsets = [self._size(number) for number in range(len(files))]
        # The checksum so far of each file that was written from its begin; the others are read once more.
        self._crcs: dict[int, int] = {number: 0 for number, offset in enumerate(self._offsets) if offset == 0}

    @property
    def offsets(self) -> tuple[int, ...]:
        """The bytes of each file that are there."""
        return tuple(self._offsets)

    @property
    def missing_bytes(self) -> int:
        """The bytes that are still to come."""
        return sum(size for _, size in self.files) - sum(self._offsets)

    def write(self, number: int, data: bytes | bytearray | memoryview) -> None:
        """Append `data` to the file with this number.

        Raises:
            PartRefused: the file would be longer than it was offered.
            VolumeFullError: no room is left; what was written remains.
            VolumeError: it cannot be written.
        """
        name, size = self.files[number]
        if self._offsets[number] + len(data) > size:
            raise PartRefused(f"{name!r:.120} of {self.part} is longer than {size} bytes")
        with translated(f"cannot write {name!r:.120} of {self.part}"), memoryview(data) as rest:
            self._open(number)
            written = 0
            while written < len(rest):
                count = os.write(self._fd, rest[written:])
                self._count(number, rest[written : written + count])
                written += count

    def finish(self, crcs: Sequence[int | None]) -> bool:
        """Hold the part if it is complete and each file has its checksum; None is not compared.

        If not, the files of `bad` are empty again and can be written anew.

        Raises:
            VolumeError: it cannot be read or moved.
        """
        self._close_file()
        with translated(f"cannot finish {self.part}"):
            own = [self._crc(number) for number in range(len(self.files))]
            self.bad = tuple(
                number
                for number, (_, size) in enumerate(self.files)
                if self._offsets[number] != size or crcs[number] not in {None, own[number]}
            )
            for number in self.bad:
                self._restart(number)
        if not self.bad:
            self._hold(self, own)
        return not self.bad

    def close(self) -> None:
        """End this transfer; what has arrived stays for the next one."""
        self._close_file()
        self._release(self)

    def abandon(self) -> None:
        """End this transfer and delete what has arrived; raise VolumeError."""
        self.close()
        self._trash.throw_away(self.path)

    def _open(self, number: int) -> None:
        if number != self._number:
            self._close_file()
            self._fd = os.open(self.path / self.files[number][0], _WRITE | os.O_APPEND, 0o644)
            self._number = number

    def _close_file(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
        self._number, self._fd = -1, -1

    def _count(self, number: int, data: memoryview) -> None:
        self._offsets[number] += len(data)
        if number in self._crcs:
            self._crcs[number] = zlib.crc32(data, self._crcs[number])

    def _restart(self, number: int) -> None:
        os.truncate(self.path / self.files[number][0], 0)
        self._offsets[number] = self._crcs[number] = 0

    def _crc(self, number: int) -> int:
        if number not in self._crcs:
            fd = os.open(self.path / self.files[number][0], os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
            self._crcs[number] = crc_of(fd)
        return self._crcs[number]

    def _size(self, number: int) -> int:
        """Create a file, or return how much of it is there; a file that is too long begins anew."""
        name, size = self.files[number]
        fd = os.open(self.path / name, _WRITE, 0o644)
        try:
            found = os.fstat(fd).st_size
            if found > size:
                os.ftruncate(fd, 0)
            return found if found <= size else 0
        finally:
            os.close(fd)

    def _make_directories(self) -> None:
        self.path.mkdir(exist_ok=True)
        for directory in directories_of(name for name, _ in self.files):
            (self.path / directory).mkdir(parents=True, exist_ok=True)

    def _remove_foreign(self) -> None:
        """Throw away what is no file or directory of this offer: another offer of the part had other files."""
        names = {name for name, _ in self.files}
        wanted = {str(self.path / name): stat.S_IFREG for name in names}
        wanted |= {str(self.path / name): stat.S_IFDIR for name in directories_of(names)}
        pending = [self.path]
        while pending:
            with contextlib.suppress(FileNotFoundError, NotADirectoryError), os.scandir(pending.pop()) as entries:
                for entry in entries:
                    kind = stat.S_IFMT(entry.stat(follow_symlinks=False).st_mode)
                    if wanted.get(entry.path) != kind:
                        self._trash.throw_away(Path(entry.path))
                    elif kind == stat.S_IFDIR:
                        pending.append(Path(entry.path))


def crc_of(fd: int) -> int:
    """Return the CRC-32 of a file's contents and close it."""
    crc = 0
    with open(fd, "rb", buffering=0) as file:
        while data := file.read(_READ_BYTES):
            crc = zlib.crc32(data, crc)
    return crc
