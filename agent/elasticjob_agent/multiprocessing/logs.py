"""Destinations of the workers' output: `LogsSpecs` chooses them once per start, `LogsDest` has the result.

Nothing that exists is ever deleted or overwritten. A start whose restart count was used before gets a folder of its own
beside the older one.
"""

import os
import re
import tempfile
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

from elasticjob_agent.multiprocessing.std import Std, to_map
from elasticjob_api import log_layout

ERROR_FILE_ENV = "TORCHELASTIC_ERROR_FILE"
_MAX_RUN_ID = 200
StdMap = Std | dict[int, Std]


@dataclass
class LogsDest:
    """Paths by local rank.

    In `stdouts` and `stderrs` an empty string is the parent's own stream, and os.devnull discards the output. The tee
    maps contain only ranks that are teed, each with its path in `stdouts` or `stderrs`.
    """

    stdouts: dict[int, str] = field(default_factory=dict)
    stderrs: dict[int, str] = field(default_factory=dict)
    tee_stdouts: dict[int, str] = field(default_factory=dict)
    tee_stderrs: dict[int, str] = field(default_factory=dict)
    error_files: dict[int, str] = field(default_factory=dict)
    filtered_stdout: str = ""
    filtered_stderr: str = ""


class LogsSpecs(ABC):
    """Streams to redirect and to show; subclasses choose the files."""

    def __init__(
        self,
        log_dir: str | None = None,
        redirects: StdMap = Std.NONE,
        tee: StdMap = Std.NONE,
        local_ranks_filter: set[int] | None = None,
    ) -> None:
        """Keep copies of these.

        Args:
            log_dir: the root of all files.
            redirects: streams that go to a file instead of the console.
            tee: streams that go to both.
            local_ranks_filter: only these local ranks are shown on the console; None or empty for all.
        """
        self._root_log_dir = log_dir
        self._redirects = dict(redirects) if isinstance(redirects, dict) else redirects
        self._tee = dict(tee) if isinstance(tee, dict) else tee
        self._local_ranks_filter = set(local_ranks_filter) if local_ranks_filter else local_ranks_filter

    @abstractmethod
    def reify(self, envs: dict[int, dict[str, str]]) -> LogsDest:
        """Return the destinations of one start; called once for each.

        Args:
            envs: each local rank's environment; variables may be added to them.

        Returns:
            Paths in folders that exist then.
        """

    @property
    @abstractmethod
    def root_log_dir(self) -> str:
        """Return the root of all files."""

    def _is_shown(self, rank: int) -> bool:
        return not self._local_ranks_filter or rank in self._local_ranks_filter

    def _fill_folder(self, folder: Path, envs: dict[int, dict[str, str]]) -> LogsDest:
        """Return the destinations of all ranks under this folder, and create their folders."""
        dest = LogsDest()
        redirects, tees = to_map(self._redirects, len(envs)), to_map(self._tee, len(envs))
        streams = (
            (Std.OUT, log_layout.STDOUT_FILE, dest.stdouts, dest.tee_stdouts),
            (Std.ERR, log_layout.STDERR_FILE, dest.stderrs, dest.tee_stderrs),
        )
        for place, (rank, env) in enumerate(sorted(envs.items())):
            rank_dir = folder / str(rank)
            rank_dir.mkdir()
            for std, name, paths, teed in streams:
                path = str(rank_dir / name)
                if std & tees[place]:
                    paths[rank] = path
                    if self._is_shown(rank):
                        teed[rank] = path
                elif std & redirects[place]:
                    paths[rank] = path
                else:
                    paths[rank] = "" if self._is_shown(rank) else os.devnull
            dest.error_files[rank] = env[ERROR_FILE_ENV] = str(rank_dir / log_layout.ERROR_FILE)
        return dest

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(root_log_dir={self._root_log_dir!r}, redirects={self._redirects!r}, "
            f"tee={self._tee!r}, local_ranks_filter={self._local_ranks_filter!r})"
        )

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and isinstance(other, LogsSpecs) and self._key() == other._key()

    __hash__ = None  # type: ignore[assignment]  # it contains sets and dicts, which are not hashable

    def _key(self) -> tuple[object, ...]:
        return self._root_log_dir, self._redirects, self._tee, self._local_ranks_filter


class DefaultLogsSpecs(LogsSpecs):
    """`<root>/<run id>_<random>/attempt_<restart count>/<local rank>/{stdout.log, stderr.log, error.json}`.

    Without `log_dir` the root is a new temporary folder; with os.devnull nothing is written at all.
    """

    def __init__(
        self,
        log_dir: str | None = None,
        redirects: StdMap = Std.NONE,
        tee: StdMap = Std.NONE,
        local_ranks_filter: set[int] | None = None,
    ) -> None:
        """Create the root if necessary.

        Raises:
            NotADirectoryError: it is a file.
        """
        if log_dir != os.devnull:
            log_dir = os.fspath(log_dir) if log_dir else tempfile.mkdtemp(prefix="torchelastic_")
            if Path(log_dir).exists() and not Path(log_dir).is_dir():
                raise NotADirectoryError(
                    f"log_dir {log_dir!r} is a file; give a folder, or omit it for a temporary one"
                )
            Path(log_dir).mkdir(parents=True, exist_ok=True)
        super().__init__(log_dir, redirects, tee, local_ranks_filter)
        self._run_log_dir: Path | None = None

    @property
    def root_log_dir(self) -> str:
        """Return the root of all files."""
        return str(self._root_log_dir)

    def reify(self, envs: dict[int, dict[str, str]]) -> LogsDest:
        """Create the folders of one start and set TORCHELASTIC_ERROR_FILE of each rank.

        Args:
            envs: by local rank; rank 0's TORCHELASTIC_RUN_ID and TORCHELASTIC_RESTART_COUNT name the folders.

        Raises:
            OSError: a folder cannot be created.
        """
        if self._root_log_dir == os.devnull:
            return self._discard_all(envs)
        first = envs.get(0, {})
        if not self._run_log_dir:
            run_id = first.get("TORCHELASTIC_RUN_ID", "test_run_id")
            safe = re.sub(r"[/\0]", "_", run_id)[:_MAX_RUN_ID]
            self._run_log_dir = Path(tempfile.mkdtemp(prefix=f"{safe}_", dir=self._root_log_dir))
        attempt = _new_folder(self._run_log_dir / f"attempt_{first.get('TORCHELASTIC_RESTART_COUNT', '0')}")
        dest = self._fill_folder(attempt, envs)
        dest.filtered_stdout = str(attempt / log_layout.FILTERED_STDOUT_FILE)
        dest.filtered_stderr = str(attempt / log_layout.FILTERED_STDERR_FILE)
        return dest

    def _discard_all(self, envs: dict[int, dict[str, str]]) -> LogsDest:
        for env in envs.values():
            env[ERROR_FILE_ENV] = ""
        return LogsDest(
            stdouts=dict.fromkeys(envs, ""),
            stderrs=dict.fromkeys(envs, ""),
            tee_stdouts=dict.fromkeys(envs, os.devnull),
            tee_stderrs=dict.fromkeys(envs, os.devnull),
            error_files=dict.fromkeys(envs, os.devnull),
            filtered_stdout=os.devnull,
            filtered_stderr=os.devnull,
        )


class FlatLogsSpecs(LogsSpecs):
    """`<log_dir>/<local rank>/{stdout.log, stderr.log, error.json}` in a folder that exists and is empty."""

    @property
    def root_log_dir(self) -> str:
        """Return the root of all files."""
        return str(self._root_log_dir)

    def check(self) -> None:
        """Check that the folder exists and is empty.

        Raises:
            FileNotFoundError: it does not exist.
            NotADirectoryError: it is a file.
            RuntimeError: it is not empty.
        """
        root = Path(self.root_log_dir)
        if not root.exists():
            raise FileNotFoundError(f"log_dir {self.root_log_dir!r} does not exist; create it first")
        if not root.is_dir():
            raise NotADirectoryError(f"log_dir {self.root_log_dir!r} is not a directory")
        if next(root.iterdir(), None):
            raise RuntimeError(f"log_dir {self.root_log_dir!r} is not empty; use a new folder for each start")

    def reify(self, envs: dict[int, dict[str, str]]) -> LogsDest:
        """Create the folders and set TORCHELASTIC_ERROR_FILE of each rank."""
        root = Path(self.root_log_dir)
        dest = self._fill_folder(root, envs)
        dest.filtered_stdout = str(root / log_layout.FILTERED_STDOUT_FILE)
        dest.filtered_stderr = str(root / log_layout.FILTERED_STDERR_FILE)
        return dest


def _new_folder(path: Path) -> Path:
    """Create this folder, or the first that does not exist of those with `.1`, `.2` … after its name."""
    for number in count(1):
        try:
            path.mkdir()
        except FileExistsError:
            path = path.parent / f"{path.name.partition('.')[0]}.{number}"
        else:
            break
    return path
