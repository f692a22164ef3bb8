"""Taking what a script has published: all or nothing, and nothing that breaks a rule."""

import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from elasticjob_agent.keep.volume.errors import PartChangedError, VolumeError
from elasticjob_agent.keep.volume.volume import Volume
from tests.integration.keep.parts import FILES, LINEAGE, contents, part_of, publish, receive, take, write_files


def open_volume(keep_dir: Path, report: Callable[[str], None] = lambda _: None) -> Volume:
    return Volume(keep_dir, job="/jobs/a", run="1a2b3c4d", report=report)


def test_a_published_part_is_moved_and_held(keep_dir: Path) -> None:
    volume = open_volume(keep_dir)
    incoming = volume.begin_round(LINEAGE)
    publish(incoming, "step-5.1-of-2")
    assert volume.published_names(LINEAGE) == ["step-5.1-of-2"]
    assert volume.take("step-5.1-of-2", part_of(5, 1, 2))
    assert volume.holdings() == {part_of(5, 1, 2).step: {1}}
    assert list(incoming.iterdir()) == []
    held = volume.open_part(part_of(5, 1, 2).step, 1)
    assert contents(held.path) == FILES
    assert held.files == tuple(sorted((name, len(data)) for name, data in FILES.items()))
    assert held.crcs is None


def test_a_name_that_is_gone_again_is_no_part_and_no_fault(keep_dir: Path) -> None:
    reports: list[str] = []
    volume = open_volume(keep_dir, reports.append)
    volume.begin_round(LINEAGE)
    assert not volume.take("step-5", part_of(5))
    assert reports == []


def symlink(path: Path) -> None:
    path.mkdir()
    (path / "state").symlink_to("/etc/passwd")


def hard_link(path: Path) -> None:
    path.mkdir()
    (path.parent / "other").write_bytes(b"x")
    (path / "state").hardlink_to(path.parent / "other")


def unix_socket(path: Path) -> None:
    path.mkdir()
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(str(path / "state"))


def fifo(path: Path) -> None:
    path.mkdir()
    os.mkfifo(path / "state")


def too_deep(path: Path) -> None:
    (path / "/".join("d" * 9)).mkdir(parents=True)


def too_many(path: Path) -> None:
    path.mkdir()
    for number in range(10_001):
        (path / str(number)).touch()


def not_a_directory(path: Path) -> None:
    path.write_bytes(b"x")


def link_itself(path: Path) -> None:
    path.symlink_to("/etc")


def unprintable(path: Path) -> None:
    path.mkdir()
    (path / "a\nb").touch()


def not_unicode(path: Path) -> None:
    path.mkdir()
    os.close(os.open(bytes(path) + b"/\xff", os.O_CREAT))


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (symlink, "'state' is neither a file nor a directory"),
        (hard_link, "'state' has 2 names"),
        (unix_socket, "'state' is neither"),
        (fifo, "'state' is neither"),
        (too_deep, "is too deep"),
        (too_many, "more than 10000 files"),
        (not_a_directory, "it is not a directory"),
        (link_itself, "it is not a directory"),
        (unprintable, "cannot be printed"),
        (not_unicode, "cannot be printed"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_a_part_that_breaks_a_rule_is_refused_and_deleted(
    keep_dir: Path, make: Callable[[Path], None], why: str
) -> None:
    reports: list[str] = []
    volume = open_volume(keep_dir, reports.append)
    incoming = volume.begin_round(LINEAGE)
    make(incoming / "tmp")
    (incoming / "tmp").rename(incoming / "step-5")
    assert not volume.take("step-5", part_of(5))
    assert volume.holdings() == {}
    assert [why in sentence and "step-5 is refused" in sentence for sentence in reports] == [True]
    volume.trash.empty()
    assert list((keep_dir / "trash").iterdir()) == []
    assert list((keep_dir / "held").rglob("*-of-*")) == []
    assert Path("/etc/passwd").exists()


def test_numbers_must_grow_within_a_round_also_for_the_next_keeper(keep_dir: Path) -> None:
    volume = open_volume(keep_dir)
    assert take(volume, part_of(5))
    assert not take(volume, part_of(5))
    assert not take(volume, part_of(4))
    assert take(volume, part_of(4, 0, 2)), "another count of parts has numbers of its own"
    volume.drop([part_of(5)])
    volume.close()
    volume = open_volume(keep_dir)
    assert not take(volume, part_of(5))
    assert take(volume, part_of(6))


def test_a_part_that_a_peer_has_sent_before_becomes_an_own_one(keep_dir: Path) -> None:
    volume = open_volume(keep_dir)
    assert receive(volume, part_of(5))
    assert not volume.parts()[part_of(5)].is_own
    assert take(volume, part_of(5))
    assert volume.parts()[part_of(5)].is_own
    volume.close()
    assert open_volume(keep_dir).parts()[part_of(5)].is_own


def test_a_part_that_a_peer_has_sent_with_other_files_is_a_conflict(keep_dir: Path) -> None:
    reports: list[str] = []
    volume = open_volume(keep_dir, reports.append)
    assert receive(volume, part_of(5, 0, 2), {"state-0.pt": b"weights"})
    assert take(volume, part_of(5, 0, 2), {"state-2.pt": b"weights"})
    assert ["part 0 of step 5 was published by two nodes" in sentence for sentence in reports] == [True]
    assert set(volume.conflicts.steps) == {part_of(5, 0, 2).step}


def test_two_counts_of_parts_and_different_files_of_one_name_are_reported_at_once(keep_dir: Path) -> None:
    reports: list[str] = []
    volume = open_volume(keep_dir, reports.append)
    assert take(volume, part_of(5, 0, 2))
    assert receive(volume, part_of(5, 1, 2), {"state.pt": b"another size"})
    assert receive(volume, part_of(5, 1, 3))
    assert ["different files 'state.pt'" in reports[0], "in 3 and in 2 parts" in reports[1]] == [True, True]


@pytest.mark.parametrize("place", [0, 500_000, 999_999], ids=["begin", "middle", "end"])
def test_different_files_of_one_name_and_size_are_found_without_a_copy_of_them(keep_dir: Path, place: int) -> None:
    reports: list[str] = []
    volume = open_volume(keep_dir, reports.append)
    first, second = bytes(1_000_000), bytearray(1_000_000)
    second[place] = 1
    assert take(volume, part_of(5, 0, 2), {"a": b"0", "state.pt": first})
    assert take(volume, part_of(5, 1, 2), {"b": b"1", "state.pt": bytes(second)})
    assert ["parts 1 and 0 of step 5 have different files 'state.pt'" in sentence for sentence in reports] == [True]
    assert set(volume.conflicts.steps) == {part_of(5, 0, 2).step}


def test_the_next_keeper_finds_a_conflict_again_if_the_one_before_has_dropped_nothing(keep_dir: Path) -> None:
    volume = open_volume(keep_dir)
    assert take(volume, part_of(5, 0, 2))
    assert take(volume, part_of(5, 1, 2), {"state.pt": b"another size"})
    assert take(volume, part_of(6, 0, 2))
    volume.close()
    reports: list[str] = []
    assert set(open_volume(keep_dir, reports.append).conflicts.steps) == {part_of(5, 0, 2).step}
    assert ["different files 'state.pt'" in sentence for sentence in reports] == [True]


def test_equal_files_of_one_name_are_no_conflict(keep_dir: Path) -> None:
    volume = open_volume(keep_dir)
    for index in range(3):
        assert take(volume, part_of(5, index, 3), {f"state-{index}": b"%d" % index, ".metadata": b"m" * 1000})
    assert set(volume.conflicts.steps) == set()


def test_leftovers_of_older_rounds_go_and_a_stray_writer_reaches_no_later_round(keep_dir: Path) -> None:
    volume = open_volume(keep_dir)
    old = volume.begin_round(LINEAGE)
    scratch = write_files(old / "tmp-7", FILES)
    stray = os.open(scratch, os.O_RDONLY | os.O_DIRECTORY)
    volume.end_round(LINEAGE)
    later = part_of(1, lineage=type(LINEAGE)(4, "def456"))
    incoming = volume.begin_round(later.step.lineage)
    os.close(os.open("late", os.O_WRONLY | os.O_CREAT, dir_fd=stray))  # its directory has no name any more
    os.close(stray)
    with pytest.raises(FileNotFoundError):
        (old / "step-8").mkdir()
    assert list((keep_dir / "in").iterdir()) == [incoming]
    assert list(incoming.iterdir()) == []
    volume.trash.empty()
    assert list((keep_dir / "trash").iterdir()) == []


def test_a_round_deletes_what_an_earlier_one_left_even_if_no_keeper_ended_that(keep_dir: Path) -> None:
    volume = open_volume(keep_dir)
    old = volume.begin_round(LINEAGE)
    write_files(old / "step-7", FILES)
    (keep_dir / "in" / "stray").symlink_to("/etc")
    incoming = volume.begin_round(type(LINEAGE)(4, "def456"))
    assert list((keep_dir / "in").iterdir()) == [incoming]


def test_files_of_a_part_do_not_change_through_a_directory_that_was_exchanged(keep_dir: Path) -> None:
    volume = open_volume(keep_dir)
    assert take(volume, part_of(5))
    held = volume.open_part(part_of(5).step, 0)
    (held.path / "sub").rename(held.path / "away")
    (held.path / "sub").symlink_to("/etc")
    assert not volume.confirm(held)
    assert volume.holdings() == {}


@pytest.mark.parametrize("name", ["state.pt", "sub/more"])
def test_a_link_to_a_file_of_equal_size_and_time_is_never_read(keep_dir: Path, name: str) -> None:
    volume = open_volume(keep_dir)
    assert take(volume, part_of(5))
    held = volume.open_part(part_of(5).step, 0)
    number = [file for file, _ in held.files].index(name)
    moved = held.path / Path(name).parts[0]
    moved.rename(keep_dir.parent / "outside")
    moved.symlink_to(keep_dir.parent / "outside")
    with pytest.raises(PartChangedError):
        held.open_file(number)
    with pytest.raises(VolumeError):
        volume.link(part_of(5).step, [0])
    assert volume.holdings() == {}


def test_a_link_that_takes_the_place_of_a_file_at_the_last_moment_is_not_restored(
    keep_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    volume = open_volume(keep_dir)
    assert take(volume, part_of(5))
    file = volume.open_part(part_of(5).step, 0).path / "state.pt"
    link = os.link

    def exchange_and_link(*arguments: Any, **options: Any) -> None:
        if not file.is_symlink():
            found = file.stat()
            file.unlink()
            file.symlink_to("/" + "x" * (found.st_size - 1))
            os.utime(file, ns=(found.st_atime_ns, found.st_mtime_ns), follow_symlinks=False)
            assert file.lstat().st_size == found.st_size
        link(*arguments, **options)

    monkeypatch.setattr(os, "link", exchange_and_link)
    with pytest.raises(PartChangedError):
        volume.link(part_of(5).step, [0])
