"""The directory on disk that all nodes of a job share, and the path of its own by which each node sees it."""

import contextlib
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Self

from elasticjob_agent.keep.persist.layout import UNFINISHED, parse_whole
from elasticjob_api.kept_steps import KeptStep

_PAUSE_S = 0.05


class SharedDirectory:
    """The directory of one job; the path of each node is a link to it, which faults take away."""

    def __init__(self, folder: Path, nodes: Iterable[str]) -> None:
        """Make the directory and all links below `folder`."""
        self._path = folder / "shared"
        self._path.mkdir()
        (folder / "mounts").mkdir()
        self._links = {name: folder / "mounts" / name for name in nodes}
        for name in self._links:
            self.show(name)

    def path_of(self, node: str) -> Path:
        """Return the path by which a node sees the directory."""
        return self._links[node]

    def hide(self, node: str) -> None:
        """Take the directory away from a node."""
        self._links[node].unlink()

    def show(self, node: str) -> None:
        """Give it back."""
        self._links[node].symlink_to(self._path)

    def whole_steps(self) -> set[KeptStep]:
        """Return the steps that have their final names."""
        found = (parse_whole(path.name) for path in self._path.glob("*/step-*"))
        return {each.step for each in found if each is not None}

    def unfinished_steps(self) -> set[str]:
        """Return the names of the steps that are being written, or that were given up half written."""
        return {path.name for path in self._path.glob(f"*/{UNFINISHED}/*")}


class DirectoryWatch:
    """A thread that writes each step that becomes whole on disk to the journal; a context manager."""

    def __init__(self, directory: SharedDirectory, write: Callable[..., None]) -> None:
        """`write` is that of the observer."""
        self._directory, self._write = directory, write
        self._has_ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="directory watch", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._has_ended.set()
        self._thread.join()

    def _run(self) -> None:
        known = set[KeptStep]()
        while not self._has_ended.wait(_PAUSE_S):
            found = set[KeptStep]()
            with contextlib.suppress(FileNotFoundError):
                found = self._directory.whole_steps()
            for step in sorted(found - known):
                self._write("whole", step=str(step))
            known |= found
