"""Where the logs of rounds and ranks are: `<dir>/round_<r>/<rank>/{stdout.log,stderr.log,error.json}`.

Kept for the newest rounds only; the agent deletes what is older, and nothing else ever.
"""

import stat
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

MAX_ROUNDS = 10
_ROUND = "round_"


@dataclass(frozen=True, slots=True)
class WorkerLogs:
    """The files of one worker in one round."""

    folder: Path

    @property
    def stdout(self) -> Path:
        """Everything it wrote to stdout."""
        return self.folder / "stdout.log"

    @property
    def stderr(self) -> Path:
        """Everything it wrote to stderr."""
        return self.folder / "stderr.log"

    @property
    def error_file(self) -> Path:
        """Written by the worker's own error handler, if it has one."""
        return self.folder / "error.json"


def worker_logs(log_dir: Path, round_: int, rank: int) -> WorkerLogs:
    """The files of `rank` in `round_`; their folder is made.

    A worker of an earlier round may have left anything there: a link that leads elsewhere, a FIFO on which an open
    would wait. That is removed, unfollowed; no worker puts it back, since all have ended between two rounds.
    """
    log_dir.mkdir(parents=True, exist_ok=True)
    logs = WorkerLogs(log_dir / f"{_ROUND}{round_}" / str(rank))
    for folder in (logs.folder.parent, logs.folder):
        _remove_unless(folder, stat.S_ISDIR)
        folder.mkdir(exist_ok=True)
    for file in (logs.stdout, logs.stderr, logs.error_file):
        _remove_unless(file, stat.S_ISREG)
    return logs


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
    """Delete the folders of rounds that are too old to be kept."""
    for folder in log_dir.glob(f"{_ROUND}*"):
        number = folder.name.removeprefix(_ROUND)
        if number.isdecimal() and int(number) <= newest_round - MAX_ROUNDS:
            _remove_tree(folder, ignore_errors=True)


def _remove_tree(folder: Path, *, ignore_errors: bool = False) -> None:
    import shutil  # noqa: PLC0415  # with all its archives: 3 ms of a start that has nothing to remove

    shutil.rmtree(folder, ignore_errors=ignore_errors)
