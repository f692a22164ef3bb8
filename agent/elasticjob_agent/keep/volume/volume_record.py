"""volume.json: the job and the run whose parts a volume has."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from elasticjob_agent.keep.volume.trash import TrashDir
from elasticjob_agent.keep.volume.trees import read_file, replace_file

_VERSION = 1
_BYTES = 1 << 16


@dataclass(frozen=True, slots=True)
class VolumeRecord:
    """The job and the run that everything in a volume belongs to."""

    job: str
    """The prefix of the job's keys."""
    run: str
    """The id of the run; empty as long as the agent knows none."""

    def is_of(self, other: "VolumeRecord") -> bool:
        """Whether both are of one job, and of one run as far as each knows its run."""
        return self.job == other.job and (not self.run or not other.run or self.run == other.run)


def write_record(path: Path, record: VolumeRecord, trash: TrashDir) -> None:
    """Write it in one step; raise VolumeError."""
    replace_file(path, json.dumps({"v": _VERSION, **asdict(record)}).encode(), trash)


def read_record(path: Path) -> VolumeRecord | None:
    """Return the record, or None if there is none that can be read."""
    try:
        value = json.loads(read_file(path, _BYTES) or b"")
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict) or value.get("v") != _VERSION:
        return None
    job, run = value.get("job"), value.get("run")
    return VolumeRecord(job, run) if isinstance(job, str) and isinstance(run, str) else None
