"""The directory of one job in the shared directory: what is whole, and every change of it.

Keepers of all nodes use it at once, and may end at any time. Each change is one rename. A step is whole if its final
name exists, and that name comes by one rename after all parts are there. No final directory is ever written again.
"""

import contextlib
import os
import secrets
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from elasticjob_agent.keep.persist import files, identity, layout, markers
from elasticjob_agent.keep.persist.errors import PersistRefused, WholeStepRefused, translated
from elasticjob_agent.keep.persist.identity import DirectoryIdentity
from elasticjob_agent.keep.persist.layout import PersistedFile, SourceFile
from elasticjob_agent.keep.persist.mounted_root import opened_root
from elasticjob_agent.keep.persist.part_copy import PartCopy, Pause
from elasticjob_agent.keep.volume.trash import TrashDir
from elasticjob_api.kept_steps import PersistedStep


class JobDir:
    """The persisted steps of one job. Each method may block as long as the file system does; all raise PersistError."""

    def __init__(self, shared: Path, job: str) -> None:
        """`shared` is the directory of all jobs; `job` the prefix of the job's keys."""
        self.path = shared / layout.job_dir_name(job)
        self.on_file: Callable[[], None] = lambda: None
        """Called for each file that is looked at or deleted: there may be so many that this takes minutes."""
        self._shared = shared
        self._identity: DirectoryIdentity | None = None
        """That of the directory that was opened first; no other one is used later."""

    # --- reading -----------------------------------------------------------------------------------------------------

    def open(self) -> str:
        """Make the directory of the job if it is missing; return its id, which all nodes must read alike."""
        with (
            translated(f"cannot use {self.path}"),
            opened_root(self._shared, makes=True) as shared,
            files.made(self.path.name, below=shared) as fd,
        ):
            found = identity.establish(fd, self.path.name)
            for name in (layout.UNFINISHED, layout.TRASH):
                with files.made(name, below=fd):
                    pass
        self._identity = self._identity or found
        return found.id

    def whole_steps(self) -> dict[PersistedStep, int]:
        """Return the whole steps, each with the time (ns) of its directory."""
        with self._opened() as fd:
            return dict(self._directories(fd, layout.parse_whole))

    def unfinished_steps(self) -> list[PersistedStep]:
        """Return the steps of which something is there, and no final name, the newest directory first."""
        with self._opened() as fd, files.opened(layout.UNFINISHED, below=fd) as above:
            found = dict(self._directories(above, layout.parse_unfinished))
        return sorted(found, key=lambda step: (found[step], str(step)), reverse=True)

    def _directories(self, fd: int, parse: "layout.Parse") -> Iterator[tuple[PersistedStep, int]]:
        for entry in files.entries(fd, str(self.path)):
            if (step := parse(entry.name)) is not None:
                with contextlib.suppress(FileNotFoundError):
                    found = entry.stat(follow_symlinks=False)
                    if stat.S_ISDIR(found.st_mode):
                        yield step, found.st_mtime_ns

    def check_whole(self, step: PersistedStep) -> Path:
        """Return the directory of a whole step; raise WholeStepRefused if it is missing, or has links or devices."""
        name = layout.whole_name(step)
        with self._opened() as fd:
            if not files.is_directory(name, below=fd):
                raise WholeStepRefused(f"{self.path / name} does not exist on this node")
            with files.opened(name, below=fd) as whole:
                try:
                    for _ in self._walk(whole):
                        pass
                except PersistRefused as error:
                    raise WholeStepRefused(str(error)) from error
        return self.path / name

    # --- writing -----------------------------------------------------------------------------------------------------

    def write_part(
        self,
        step: PersistedStep,
        index: int,
        source: Path,
        wanted: Sequence[SourceFile],
        pause: Pause,
    ) -> None:
        """Copy one part from `source`, unless it is there already."""
        with self._opened() as fd:
            if files.is_directory(layout.whole_name(step), below=fd):
                return
            with (
                _thrown_away_if_refused(fd, step),
                files.opened(layout.TRASH, below=fd) as trash,
                files.opened(layout.UNFINISHED, below=fd) as above,
                files.made(str(step), below=above) as unfinished,
            ):
                copy = PartCopy(unfinished, trash, index, pause)
                if not copy.is_done():
                    copy.copy(source, wanted)

    def complete(self, step: PersistedStep) -> bool:
        """Give a step its final name if all of its parts are there; return whether it is whole now."""
        name = layout.whole_name(step)
        with self._opened() as fd:
            if not files.is_directory(name, below=fd):
                with contextlib.suppress(FileNotFoundError):  # another node has renamed or removed it meanwhile
                    self._complete(fd, step, name)
            if not files.is_directory(name, below=fd):
                return False
            _throw_away(fd, layout.UNFINISHED, [str(step)])
        return True

    def _complete(self, fd: int, step: PersistedStep, name: str) -> None:
        with files.opened(layout.UNFINISHED, below=fd) as above, files.opened(str(step), below=above) as unfinished:
            with _thrown_away_if_refused(fd, step):
                with files.opened(layout.PARTS, below=unfinished) as parts:
                    merged = markers.read_all(parts, step.step.parts)
                if merged is None:
                    return
                self._check_files(unfinished, merged)
            if files.rename_new(layout.FILES, name, below=unfinished, into=fd):
                os.fsync(fd)

    def _check_files(self, unfinished: int, merged: dict[str, PersistedFile]) -> None:
        """Delete what belongs to no part; raise PersistRefused if a file is missing or has another size."""
        with files.opened(layout.FILES, below=unfinished) as fd:
            sizes = {}
            for name, found in list(self._walk(fd)):
                if name in merged:
                    sizes[name] = found.st_size
                    continue
                with files.parent_of(name, below=fd) as (parent, last), contextlib.suppress(FileNotFoundError):
                    os.unlink(last, dir_fd=parent)
        if wrong := next((file.name for file in merged.values() if sizes.get(file.name) != file.size), None):
            raise PersistRefused(f"{wrong!r:.120} is not as its part was written; the step is written again")

    # --- deleting ----------------------------------------------------------------------------------------------------

    def remove_whole(self, steps: Iterable[PersistedStep]) -> None:
        """Throw these whole steps away; each loses its name by one rename."""
        with self._opened() as fd:
            _throw_away(fd, "", [layout.whole_name(step) for step in steps])

    def remove_unfinished(self, steps: Iterable[PersistedStep]) -> None:
        """Throw away what was written of these steps."""
        with self._opened() as fd:
            _throw_away(fd, layout.UNFINISHED, [str(step) for step in steps])

    def empty_trash(self, may_go_on: Callable[[], bool] = lambda: True) -> None:
        """Delete what was thrown away as long as `may_go_on` returns True; this can take minutes."""

        def note_deletion() -> bool:
            self.on_file()
            return may_go_on()

        with self._opened() as fd:
            TrashDir(Path(layout.TRASH), below=fd, may_delete=note_deletion).empty()

    def _walk(self, fd: int) -> Iterator[tuple[str, os.stat_result]]:
        for each in files.walk(fd):
            self.on_file()
            yield each

    @contextlib.contextmanager
    def _opened(self) -> Iterator[int]:
        """Open the directory of the job, and check that it is this one. All work begins from this descriptor."""
        with (
            translated(f"cannot use {self.path}"),
            opened_root(self._shared) as shared,
            self._opened_below(shared) as fd,
        ):
            identity.check(fd, self.path.name, self._identity)
            yield fd

    @contextlib.contextmanager
    def _opened_below(self, shared: int) -> Iterator[int]:
        with contextlib.ExitStack() as stack:
            try:
                fd = stack.enter_context(files.opened(self.path.name, below=shared))
            except FileNotFoundError as error:
                cure = "move it back, or suspend the job and remove keep.persistTo"
                raise PersistRefused(f"{self.path} was moved away or deleted; {cure}") from error
            yield fd


@contextlib.contextmanager
def _thrown_away_if_refused(fd: int, step: PersistedStep) -> Iterator[None]:
    """Throw away what was written of a step if it breaks a rule."""
    try:
        yield
    except PersistRefused:
        _throw_away(fd, layout.UNFINISHED, [str(step)])
        raise


def _throw_away(fd: int, above: str, names: Iterable[str]) -> None:
    """Rename these directories into the trash of a job; `fd` is a descriptor of its directory."""
    with contextlib.ExitStack() as stack:
        trash = stack.enter_context(files.opened(layout.TRASH, below=fd))
        parent = stack.enter_context(files.opened(above, below=fd)) if above else fd
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                os.rename(name, f"{name[:100]}.{secrets.token_hex(8)}", src_dir_fd=parent, dst_dir_fd=trash)
