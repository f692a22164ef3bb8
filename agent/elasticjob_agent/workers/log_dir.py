"""The log files of rounds and ranks, created and deleted; `elasticjob_api.log_layout` has their names.

Only the newest rounds are kept; the agent deletes the folders of older rounds.
"""

import stat
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from elasticjob_api import log_layout

MAX_ROUNDS = 10


@dataclass(frozen=True, slots=True)
class WorkerLogs:
    """The files of one worker in one round."""

    folder: Path
    stdout_bytes_before: int = 0
    """Size of the file of stdout before the start: a round of this number may have run before etcd was wiped."""

    @property
    def stdout(self) -> Path:
        """All that the worker wrote to stdout."""
        return self.folder / log_layout.STDOUT_FILE

    @property
    def stderr(self) -> Path:
        """All that the worker wrote to stderr."""
        return self.folder / log_layout.STDERR_FILE

    @property
    def error_file(self) -> Path:
        """The file that the worker's own error handler writes, if it has one."""
        return self.folder / log_layout.ERROR_FILE

    def has_output(self) -> bool:
        """Whether the worker has written to stdout; False if its stdout has no file here, such as a console."""
        return _size_of(self.stdout) > self.stdout_bytes_before


def worker_logs(log_dir: Path, round_: int, rank: int) -> WorkerLogs:
    """Create the folder of `rank` in `round_`, and return its files.

    A worker of an earlier round may have left anything there. A link may lead to another place, and a FIFO would block
    an open. Such entries are removed, and links are not followed. No worker can restore them, because all workers have
    ended between two rounds.
    """
    log_dir.mkdir(parents=True, exist_ok=True)
    logs = WorkerLogs(log_dir / log_layout.worker_folder(round_, rank))
    for folder in (logs.folder.parent, logs.folder):
        _remove_unless(folder, stat.S_ISDIR)
        folder.mkdir(exist_ok=True)
    for file in (logs.stdout, logs.stderr, logs.error_file):
        _remove_unless(file, stat.S_ISREG)
    return replace(logs, stdout_bytes_before=_size_of(logs.stdout))


def _size_of(path: Path) -> int:
    try:
        return path.lstat().st_size
    except OSError:
        return 0


def _remove_unless(path: Path, is_right: Callable[[int], bool]) -> None:
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    if stat.S_ISDIR(mode) and not is_right(mode):
        _remove_tree(path)
    elif not is_right(mode):
        path.unlink()


def prune(log_dir: Path, newest_round: int) -> None:
    """Delete the folders of all rounds but the newest ten."""
    for folder in log_dir.glob("*"):
        number = log_layout.round_of(folder.name)
        if number is not None and number <= newest_round - MAX_ROUNDS:
            _remove_tree(folder, ignore_errors=True)


def _remove_tree(folder: Path, *, ignore_errors: bool = False) -> None:
    import shutil  # noqa: PLC0415  # it loads its archive formats: 3 ms of a start that has nothing to remove

    shutil.rmtree(folder, ignore_errors=ignore_errors)
