"""A part that is held, for reading: during a transfer it may be dropped, and a script may still change it."""

import os
from dataclasses import dataclass
from pathlib import Path

from elasticjob_agent.keep.volume.errors import PartChangedError, ResourcesShortError, VolumeError
from elasticjob_agent.keep.volume.manifest import Manifest
from elasticjob_agent.keep.volume.paths import KeptPart
from elasticjob_agent.keep.volume.trees import list_files, open_file


@dataclass(frozen=True, slots=True)
class HeldPart:
    """One whole part. A file that was opened stays readable when the part is dropped."""

    part: KeptPart
    path: Path
    manifest: Manifest

    @property
    def files(self) -> tuple[tuple[str, int], ...]:
        """The relative name and the size of each file."""
        return tuple((file.name, file.size) for file in self.manifest.files)

    @property
    def crcs(self) -> tuple[int, ...] | None:
        """The CRC-32 of each file, or None as long as one is not known."""
        return self.manifest.crcs

    def open_file(self, number: int) -> int:
        """Return a descriptor of the file with this number, for reading.

        Raises:
            PartChangedError: the file is not as it was published.
            ResourcesShortError: it cannot be opened for want of descriptors or memory.
        """
        file = self.manifest.files[number]
        fd = open_file(self.path, file.name)
        found = os.fstat(fd)
        if (found.st_size, found.st_mtime_ns) != (file.size, file.mtime_ns):
            os.close(fd)
            raise PartChangedError(f"{file.name!r:.120} of {self.part} has changed after the part was published")
        return fd

    def is_unchanged(self) -> bool:
        """Return whether all files have the sizes and times of the manifest; raise ResourcesShortError."""
        try:
            return self.manifest.is_of(list_files(self.path))
        except ResourcesShortError:
            raise
        except VolumeError:
            return False
