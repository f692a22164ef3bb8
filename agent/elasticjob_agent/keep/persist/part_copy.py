"""The copy of one part from memory to disk, and its marker.

A file is written under another name, synced, and renamed. The marker comes after all files. So a marker proves that
each file of its part is there, whatever ended the writer.
"""

import contextlib
import os
import secrets
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path

from elasticjob_agent.keep.persist import files, layout, markers
from elasticjob_agent.keep.persist.errors import PersistError, SourceChangedError
from elasticjob_agent.keep.persist.layout import PersistedFile, SourceFile
from elasticjob_agent.keep.volume.errors import PartChangedError, ResourcesShortError
from elasticjob_agent.keep.volume.trees import open_file

_SYNC_BYTES = 32 << 20
"""So many bytes are synced at a time: the writes of the workers do not wait behind more."""

Pause = Callable[[int], int]
"""Called before so many bytes are copied; it may wait, and returns how many may be copied at once."""


class PartCopy:
    """The copy of one part into an unfinished step."""

    def __init__(self, unfinished: int, index: int, pause: Pause) -> None:
        """`unfinished` is a descriptor of the directory of the step."""
        self._unfinished = unfinished
        self._index = index
        self._pause = pause

    def is_done(self) -> bool:
        """Whether the marker is there already."""
        with contextlib.suppress(OSError), files.opened(layout.PARTS, below=self._unfinished) as parts:
            return os.stat(layout.marker_name(self._index), dir_fd=parts, follow_symlinks=False).st_size > 0
        return False

    def copy(self, source: Path, wanted: Sequence[SourceFile]) -> None:
        """Copy these files of the directory `source`, then write the marker.

        Raises:
            SourceChangedError: a file in memory is not as it was published.
            OSError: a file operation failed.
        """
        with (
            files.made(layout.FILES, below=self._unfinished) as target,
            files.made(layout.WRITING, below=self._unfinished) as writing,
        ):
            found = [self._copy_file(source, target, writing, file) for file in wanted]
            os.fsync(target)
            self._write_marker(writing, found)

    def _copy_file(self, source: Path, target: int, writing: int, file: SourceFile) -> PersistedFile:
        draft = f"{self._index}.{secrets.token_hex(8)}"
        try:
            written = self._copy_bytes(source, writing, draft, file)
            with files.parent_of(file.name, below=target, makes=True) as (parent, last):
                os.rename(draft, last, src_dir_fd=writing, dst_dir_fd=parent)
                if parent != target:
                    os.fsync(parent)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(draft, dir_fd=writing)
            raise
        return written

    def _copy_bytes(self, source: Path, writing: int, draft: str, file: SourceFile) -> PersistedFile:
        try:
            reads = open_file(source, file.name)
        except PartChangedError as error:
            raise SourceChangedError(str(error)) from error
        except ResourcesShortError as error:
            raise PersistError(str(error)) from error
        try:
            writes = files.create(draft, below=writing)
            try:
                return self._pump(reads, writes, file)
            finally:
                os.close(writes)
        finally:
            os.close(reads)

    def _pump(self, reads: int, writes: int, file: SourceFile) -> PersistedFile:
        crc = copied = unsynced = 0
        while copied < file.size:
            piece = os.read(reads, self._pause(file.size - copied))
            if not piece:
                break
            crc, copied, unsynced = zlib.crc32(piece, crc), copied + len(piece), unsynced + len(piece)
            files.write_all(writes, piece)
            if unsynced >= _SYNC_BYTES:
                os.fdatasync(writes)
                os.posix_fadvise(writes, 0, copied, os.POSIX_FADV_DONTNEED)
                unsynced = 0
        if copied != file.size or os.read(reads, 1):
            raise SourceChangedError(f"{file.name!r:.120} in memory has another size than when it was published")
        if file.crc not in {None, crc}:
            raise SourceChangedError(f"{file.name!r:.120} in memory has changed after the part was published")
        os.fsync(writes)
        os.posix_fadvise(writes, 0, 0, os.POSIX_FADV_DONTNEED)
        return PersistedFile(file.name, file.size, crc)

    def _write_marker(self, writing: int, found: Sequence[PersistedFile]) -> None:
        draft = f"{self._index}.{secrets.token_hex(8)}"
        files.write_new(draft, markers.encode(found), below=writing)
        with files.made(layout.PARTS, below=self._unfinished) as parts:
            os.rename(draft, layout.marker_name(self._index), src_dir_fd=writing, dst_dir_fd=parts)
            os.fsync(parts)
        os.fsync(self._unfinished)
