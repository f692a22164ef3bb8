"""The copy of one part from memory to disk, and its marker.

Two nodes may write one part at once. So each copies it to a directory of its own. The first node gives its one the
name of the part, by one rename. From there each node may move the files to those of the step. At last the list of them
becomes the marker. So a marker proves that each file of its part is there, whatever ended the writer. It also proves
that no further move can come, not even into a step that has its final name.
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
"""Called before a move, or so many bytes are copied; it may wait, and returns how many may be copied at once."""


class PartCopy:
    """The copy of one part into an unfinished step."""

    def __init__(self, unfinished: int, trash: int, index: int, pause: Pause) -> None:
        """`unfinished` is a descriptor of the directory of the step, `trash` that of what is being deleted."""
        self._unfinished = unfinished
        self._trash = trash
        self._index = index
        self._pause = pause

    def is_done(self) -> bool:
        """Whether the marker is there already."""
        with contextlib.suppress(OSError), files.opened(layout.PARTS, below=self._unfinished) as parts:
            return os.stat(layout.marker_name(self._index), dir_fd=parts, follow_symlinks=False).st_size > 0
        return False

    def copy(self, source: Path, wanted: Sequence[SourceFile]) -> None:
        """Copy these files of the directory `source` unless another node has; then move them, and write the marker.

        Raises:
            PersistRefused: the list of the files is too long, or no writer made it.
            SourceChangedError: a file in memory is not as it was published.
            OSError: a file operation failed.
        """
        with files.made(layout.COPIED, below=self._unfinished) as copied:
            if not files.is_directory(str(self._index), below=copied):
                self._copy_part(source, copied, wanted)
            with files.opened(str(self._index), below=copied) as part:
                self._move_part(part)

    def _copy_part(self, source: Path, copied: int, wanted: Sequence[SourceFile]) -> None:
        draft = f"{self._index}.{secrets.token_hex(8)}"
        with files.made(layout.WRITING, below=self._unfinished) as writing:
            try:
                with files.made(draft, below=writing) as own, files.made(layout.FILES, below=own) as target:
                    found = [self._copy_file(source, target, file) for file in wanted]
                    files.write_new(layout.LIST, markers.encode(found), below=own)
                files.rename_new(draft, str(self._index), below=writing, into=copied)
            finally:
                with contextlib.suppress(OSError):  # it has the name of the part
                    os.rename(draft, draft, src_dir_fd=writing, dst_dir_fd=self._trash)

    def _copy_file(self, source: Path, target: int, file: SourceFile) -> PersistedFile:
        try:
            reads = open_file(source, file.name)
        except PartChangedError as error:
            raise SourceChangedError(str(error)) from error
        except ResourcesShortError as error:
            raise PersistError(str(error)) from error
        try:
            with files.parent_of(file.name, below=target, makes=True) as (parent, last):
                writes = files.create(last, below=parent)
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

    def _move_part(self, part: int) -> None:
        """Move all files of a copied part, then its list; other nodes may do the same meanwhile."""
        try:
            found = layout.decode_marker(files.read(layout.LIST, markers.MARKER_BYTES, below=part))
        except FileNotFoundError:  # another node has moved all of it
            return
        with (
            files.opened(layout.FILES, below=part) as copies,
            files.made(layout.FILES, below=self._unfinished) as target,
        ):
            for file in found:
                self._pause(0)
                with contextlib.suppress(FileNotFoundError):  # another node has moved this one
                    _move(file.name, copies, target)
            os.fsync(target)
        with files.made(layout.PARTS, below=self._unfinished) as parts:
            with contextlib.suppress(FileNotFoundError):  # the same
                # The directory of the part keeps `files`, so no later copy can take its name.
                os.rename(layout.LIST, layout.marker_name(self._index), src_dir_fd=part, dst_dir_fd=parts)
            os.fsync(parts)
        os.fsync(self._unfinished)


def _move(name: str, source: int, target: int) -> None:
    with (
        files.parent_of(name, below=source) as (above, last),
        files.parent_of(name, below=target, makes=True) as (parent, _),
    ):
        os.rename(last, last, src_dir_fd=above, dst_dir_fd=parent)
        if parent != target:
            os.fsync(parent)
