"""Counts of what is in a volume, while a worker of another user exchanges directories that it can still reach."""

import itertools
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from elasticjob_agent.keep.volume.own_links import OwnLinks
from elasticjob_agent.keep.volume.paths import VolumePath
from elasticjob_agent.keep.volume.space import used_bytes
from tests.integration.keep.parts import write_files

SIZE = 1 << 20


@pytest.fixture
def volume(tmp_path: Path) -> VolumePath:
    """Return a volume whose trash has directories of a worker."""
    paths = VolumePath(tmp_path / "volume")
    for path in (paths.kept, paths.pinned):
        path.mkdir(parents=True)
    write_files(paths.trash, {"0/dir/deep/file": b"x", "0/file": b"y"})
    return paths


@pytest.fixture
def elsewhere(tmp_path: Path) -> Path:
    return write_files(tmp_path / "elsewhere", {"large": bytes(SIZE), "deep/large": bytes(SIZE)})


def each_exchange(
    volume: VolumePath, elsewhere: Path, monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]
) -> Iterator[object]:
    """Yield what `act` returns if a link takes the place of a directory before any one of its file operations."""
    directory, aside = volume.trash / "0" / "dir", volume.root / "aside"
    for exchanged in itertools.count(1):
        numbers = itertools.count(1)

        def before(call: Callable[..., object], numbers: Iterator[int] = numbers, at: int = exchanged) -> object:
            def wrapped(*arguments: object, **options: object) -> object:
                if next(numbers) == at:
                    directory.rename(aside)
                    directory.symlink_to(elsewhere)
                return call(*arguments, **options)

            return wrapped

        with monkeypatch.context() as patch:
            patch.setattr(os, "scandir", before(os.scandir))
            patch.setattr(os, "open", before(os.open))
            found = act()
        if not directory.is_symlink():
            return
        directory.unlink()
        aside.rename(directory)
        yield found


def test_the_bytes_of_no_other_directory_are_counted(
    volume: VolumePath, elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = list(each_exchange(volume, elsewhere, monkeypatch, lambda: used_bytes([volume.trash]) < SIZE))
    assert len(found) > 3
    assert all(found)


def test_the_links_of_no_other_directory_are_counted(
    volume: VolumePath, elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inode = (elsewhere / "large").stat().st_ino
    found = list(each_exchange(volume, elsewhere, monkeypatch, lambda: OwnLinks(volume).count(inode)))
    assert len(found) > 3
    assert not any(found)


def test_what_is_in_directories_is_counted(volume: VolumePath) -> None:
    small = (volume.trash / "0" / "file").stat()
    assert OwnLinks(volume).count(small.st_ino) == 1
    assert used_bytes([volume.trash]) >= 2 * small.st_blocks * 512
