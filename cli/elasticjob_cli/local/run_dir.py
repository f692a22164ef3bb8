"""The folder that a run writes to: etcd's data, logs, volumes, the final resource. Nothing else is written."""

from dataclasses import dataclass
from pathlib import Path

from elasticjob_cli.errors import RunFolderError

_PRIVATE = 0o700
"""Other users of this machine can neither read the output of workers nor write to their progress FIFOs."""


@dataclass(frozen=True, slots=True)
class RunDir:
    """The folder of a run, and its parts."""

    path: Path

    @property
    def etcd(self) -> Path:
        """Folder of the embedded etcd, with data and log."""
        return self.path / "etcd"

    @property
    def pods(self) -> Path:
        """Folder with a folder for each pod: volumes and termination logs."""
        return self.path / "pods"

    @property
    def host(self) -> Path:
        """Folder for the hostPath volumes whose path does not exist on this machine."""
        return self.path / "host"

    @property
    def logs(self) -> Path:
        """Folder with a folder for each pod: the output of its containers."""
        return self.path / "logs"

    @property
    def trace(self) -> Path:
        """File with the steps of all agents in each round, in microseconds, for `elasticjob timeline --trace`."""
        return self.path / "trace.jsonl"

    @property
    def log(self) -> Path:
        """File with the log of the operator and the libraries."""
        return self.path / "elasticjob.log"

    @property
    def events(self) -> Path:
        """File with the operator's events, one JSON object a line."""
        return self.path / "events.jsonl"

    @property
    def resource(self) -> Path:
        """File with the job and its latest status."""
        return self.path / "job.yaml"


def default_path(name: str, *, time_utc: str, short_id: str) -> Path:
    """Return `runs/<name>-<time>-<id>` in the working directory."""
    return Path("runs") / f"{name}-{time_utc}-{short_id}"


def make_run_dir(path: Path) -> RunDir:
    """Create the folder and its parts; raise RunFolderError if it cannot be written or is not empty."""
    try:
        path.mkdir(mode=_PRIVATE, parents=True, exist_ok=True)
        if any(path.iterdir()):
            raise RunFolderError(
                f"run folder {path}: is not empty; name a new folder with --run-dir, or empty this one"
            )
        folder = RunDir(path)
        for part in (folder.pods, folder.host, folder.logs):
            part.mkdir(mode=_PRIVATE)
        for file in (folder.log, folder.events):
            file.touch(mode=0o600)
    except OSError as error:
        raise RunFolderError(
            f"run folder {path}: cannot be created or written: {error.strerror}; name another folder with --run-dir"
        ) from error
    return folder
