"""The one folder that a run writes to: etcd's data, logs, volumes, the final resource. Nothing is made outside it."""

from dataclasses import dataclass
from pathlib import Path

from elasticjob_cli.errors import RunFolderError

_PRIVATE = 0o700
"""Others of this machine neither read what workers wrote nor write progress into their FIFOs."""


@dataclass(frozen=True, slots=True)
class RunDir:
    """Its parts."""

    path: Path

    @property
    def etcd(self) -> Path:
        """Data and log of the embedded etcd."""
        return self.path / "etcd"

    @property
    def pods(self) -> Path:
        """Volumes and termination logs, a folder for each pod."""
        return self.path / "pods"

    @property
    def host(self) -> Path:
        """HostPath volumes that this machine does not have."""
        return self.path / "host"

    @property
    def logs(self) -> Path:
        """What containers wrote, a folder for each pod."""
        return self.path / "logs"

    @property
    def trace(self) -> Path:
        """What all agents did in each round, in microseconds: `elasticjob timeline --trace`."""
        return self.path / "trace.jsonl"

    @property
    def log(self) -> Path:
        """What the operator says to those who look for its faults."""
        return self.path / "elasticjob.log"

    @property
    def resource(self) -> Path:
        """The job, with its status as it is now, and in the end as it was."""
        return self.path / "job.yaml"


def default_path(name: str, *, time_utc: str, short_id: str) -> Path:
    """`runs/<name>-<time>-<id>` in the working directory."""
    return Path("runs") / f"{name}-{time_utc}-{short_id}"


def make_run_dir(path: Path) -> RunDir:
    """Make it, and be sure that it can be written; RunFolderError when it cannot, or holds something already."""
    try:
        path.mkdir(mode=_PRIVATE, parents=True, exist_ok=True)
        if any(path.iterdir()):
            raise RunFolderError(f"run folder {path}: is not empty; name a new one with --run-dir, or empty it")
        folder = RunDir(path)
        for part in (folder.pods, folder.host, folder.logs):
            part.mkdir(mode=_PRIVATE)
        folder.log.touch(mode=0o600)
    except OSError as error:
        raise RunFolderError(
            f"run folder {path}: cannot be made or written: {error.strerror}; name another one with --run-dir"
        ) from error
    return folder
