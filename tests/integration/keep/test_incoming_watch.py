"""The names that a keeper notices in the directory of its round, with the kernel's inotify."""

import itertools
import os
import select
import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from elasticjob_agent.keep.keeper.incoming_watch import IncomingWatch
from elasticjob_agent.keep.keeper.inotify import InotifyWatch


@pytest.fixture
def directories(tmp_path: Path) -> tuple[Path, Path]:
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    second.mkdir()
    return first, second


@pytest.fixture
def inotify() -> Iterator[InotifyWatch]:
    with closing(InotifyWatch()) as inotify:
        yield inotify


def rename_into(directory: Path, name: str) -> None:
    (directory / "tmp").mkdir()
    (directory / "tmp").rename(directory / name)


def is_readable(watch: IncomingWatch) -> bool:
    return bool(select.select([watch.fd], [], [], 0)[0])


def test_a_renamed_name_is_noticed_once_and_one_made_in_place_is_remembered(
    directories: tuple[Path, Path], inotify: InotifyWatch
) -> None:
    watch = IncomingWatch(directories[0], inotify)
    rename_into(directories[0], "step-1")
    (directories[0] / "step-2").mkdir()
    assert is_readable(watch)
    assert watch.new_names() == ["step-1"]
    assert watch.new_names() == []
    assert [name for name in ("step-1", "step-2") if watch.was_made_in_place(name)] == ["step-2"]


def test_a_name_that_was_made_in_place_is_unpublished_once_and_a_file_is_known(
    directories: tuple[Path, Path], inotify: InotifyWatch
) -> None:
    watch = IncomingWatch(directories[0], inotify)
    (directories[0] / "step-2").mkdir()
    (directories[0] / "step-3").touch()
    rename_into(directories[0], "step-1")
    assert watch.new_names() == ["step-1"]
    assert watch.unpublished_names() == ["step-2", "step-3"]
    assert [name for name in ("step-1", "step-2", "step-3") if watch.is_file_in_place(name)] == ["step-3"]
    watch.new_names()
    assert watch.unpublished_names() == []


def test_an_almost_right_name_is_a_draft_unless_it_stays_when_another_number_is_created(
    directories: tuple[Path, Path], inotify: InotifyWatch
) -> None:
    watch = IncomingWatch(directories[0], inotify)
    for number in (1, 2):
        draft = directories[0] / f"step_{number}"
        draft.mkdir()
        draft.rename(directories[0] / f"step-{number}")
    assert watch.new_names() == ["step-1", "step-2"]
    assert watch.unpublished_names() == []
    for name in ("step_3.0-of-2", "step_3.1-of-2", "step_4.0-of-2"):
        (directories[0] / name).mkdir()
    assert watch.new_names() == []
    assert watch.unpublished_names() == ["step_3.0-of-2"]


def test_the_next_round_has_the_same_instance_and_no_name_of_the_round_before(
    directories: tuple[Path, Path], inotify: InotifyWatch
) -> None:
    """The kernel needs milliseconds to close an instance, and a round waited for that."""
    before = IncomingWatch(directories[0], inotify)
    fd = before.fd
    rename_into(directories[0], "step-1")
    before.close()
    watch = IncomingWatch(directories[1], inotify)
    rename_into(directories[0], "step-2")
    rename_into(directories[1], "step-3")
    assert watch.new_names() == ["step-3"]
    assert watch.fd == fd


def test_a_directory_that_is_deleted_is_read_once_and_its_watch_can_still_be_ended(
    directories: tuple[Path, Path], inotify: InotifyWatch
) -> None:
    watch = IncomingWatch(directories[0], inotify)
    shutil.rmtree(directories[0])
    assert watch.new_names() is None
    assert watch.new_names() == []
    watch.close()
    following = IncomingWatch(directories[1], inotify)
    rename_into(directories[1], "step-1")
    assert following.new_names() == ["step-1"]


def test_a_script_that_renames_faster_than_events_are_read_keeps_no_reader_busy_for_ever(
    directories: tuple[Path, Path], inotify: InotifyWatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch = IncomingWatch(directories[0], inotify)
    read, numbers = os.read, itertools.count()

    def rename_and_read(fd: int, count: int) -> bytes:
        number = next(numbers)
        assert number < 1000, "it reads without an end"
        rename_into(directories[0], f"step-{number}")
        return read(fd, count)

    monkeypatch.setattr(os, "read", rename_and_read)
    assert watch.new_names() is None, "the directory is read"
