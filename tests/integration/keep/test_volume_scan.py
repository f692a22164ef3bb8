"""The scan of a volume: what is found after any end of the keeper before."""

import contextlib
import errno
import itertools
import json
import os
import resource
from collections.abc import Iterator
from pathlib import Path

import pytest

from elasticjob_agent.keep.volume.errors import VolumeError, VolumeUnavailable
from elasticjob_agent.keep.volume.volume import Volume
from elasticjob_api.kept_steps import Lineage
from tests.integration.keep.parts import FILES, LINEAGE, contents, part_of, receive, take, write_files


def open_volume(keep_dir: Path, reports: list[str] | None = None, *, job: str = "/jobs/a", run: str = "run1") -> Volume:
    return Volume(keep_dir, job=job, run=run, report=(reports if reports is not None else []).append)


def test_the_next_keeper_finds_what_was_held(keep_dir: Path) -> None:
    volume = open_volume(keep_dir)
    assert take(volume, part_of(5, 0, 2))
    assert receive(volume, part_of(5, 1, 2), {"other": b"x"})
    before = volume.parts()
    volume.close()
    assert open_volume(keep_dir).parts() == before
    assert contents(keep_dir / "held" / str(LINEAGE) / "5" / "0-of-2") == FILES


@pytest.mark.parametrize(("job", "run"), [("/jobs/b", "run1"), ("/jobs/a", "run2")])
def test_everything_of_another_job_or_run_is_deleted(keep_dir: Path, job: str, run: str) -> None:
    volume = open_volume(keep_dir)
    assert take(volume, part_of(5))
    volume.close()
    (keep_dir / "mine").write_text("no part of the volume")
    volume = open_volume(keep_dir, job=job, run=run)
    assert volume.holdings() == {}
    assert volume.run == run
    assert list((keep_dir / "held").iterdir()) == list((keep_dir / "in").iterdir()) == []
    assert (keep_dir / "mine").exists()


def test_a_run_that_is_not_known_yet_keeps_what_is_there_until_it_is_known(keep_dir: Path) -> None:
    volume = open_volume(keep_dir)
    assert take(volume, part_of(5))
    volume.close()
    volume = open_volume(keep_dir, run="")
    assert (volume.run, len(volume.holdings())) == ("run1", 1)
    volume.adopt_run("run1")
    assert len(volume.holdings()) == 1
    volume.adopt_run("run2")
    assert (volume.run, volume.holdings()) == ("run2", {})


@pytest.mark.parametrize("damage", [b"", b"{}", b"[1]", b"\xff", b'{"v": 2, "job": "/jobs/a", "run": "run1"}'])
def test_contents_without_a_readable_record_are_of_no_known_job(keep_dir: Path, damage: bytes) -> None:
    volume = open_volume(keep_dir)
    assert take(volume, part_of(5))
    volume.close()
    (keep_dir / "volume.json").write_bytes(damage)
    assert open_volume(keep_dir).holdings() == {}


def test_a_part_without_a_manifest_is_whole_and_gets_one(keep_dir: Path) -> None:
    volume = open_volume(keep_dir)
    assert take(volume, part_of(5))
    volume.close()
    manifest = keep_dir / "held" / str(LINEAGE) / "5" / "0-of-1.json"
    manifest.unlink()
    assert open_volume(keep_dir).holdings() == {part_of(5).step: {0}}
    assert manifest.exists()


def test_a_part_without_a_manifest_is_not_held_if_a_script_has_linked_its_file(keep_dir: Path) -> None:
    reports: list[str] = []
    volume = open_volume(keep_dir)
    assert take(volume, part_of(5))
    volume.link(part_of(5).step, [0])
    volume.close()
    held = keep_dir / "held" / str(LINEAGE) / "5"
    (held / "0-of-1.json").unlink()
    (keep_dir / "in" / "other").hardlink_to(held / "0-of-1" / "state.pt")
    assert open_volume(keep_dir, reports).holdings() == {}
    assert ["'state.pt' has 3 names" in sentence for sentence in reports] == [True]


@pytest.mark.parametrize("missing", ["nothing", "manifest"])
def test_a_keeper_without_descriptors_opens_no_volume_and_deletes_nothing(keep_dir: Path, missing: str) -> None:
    reports: list[str] = []
    volume = open_volume(keep_dir)
    assert take(volume, part_of(5))
    volume.link(part_of(5).step, [0])
    volume.close()
    if missing == "manifest":
        (keep_dir / "held" / str(LINEAGE) / "5" / "0-of-1.json").unlink()
    errors = []
    for count in itertools.count():
        with few_descriptors(count):
            try:
                volume = open_volume(keep_dir, reports)
                break
            except VolumeError as error:
                errors.append(str(error))
    assert volume.holdings() == {part_of(5).step: {0}}
    assert len(errors) > 1
    assert all(os.strerror(errno.EMFILE) in error for error in errors)
    assert reports == []


@contextlib.contextmanager
def few_descriptors(count: int) -> Iterator[None]:
    """Let this process open only so many further files at once."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = max(map(int, (path.name for path in Path("/proc/self/fd").iterdir())))
    filled = [os.dup(2)]
    while filled[-1] < highest:  # the limit is that of the highest number
        filled.append(os.dup(2))
    resource.setrlimit(resource.RLIMIT_NOFILE, (filled[-1] + 1 + count, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        for fd in filled:
            os.close(fd)


def test_a_manifest_without_its_part_is_nothing(keep_dir: Path) -> None:
    volume = open_volume(keep_dir)
    assert take(volume, part_of(5))
    volume.close()
    directory = keep_dir / "held" / str(LINEAGE) / "5"
    (directory / "0-of-1").rename(keep_dir / "trash" / "0")
    assert open_volume(keep_dir).holdings() == {}
    assert not directory.exists()


@pytest.mark.parametrize("change", ["content", "more", "less", "time", "removed", "symlink"])
def test_a_part_that_changed_after_it_was_published_is_withdrawn(keep_dir: Path, change: str) -> None:
    reports: list[str] = []
    volume = open_volume(keep_dir)
    assert take(volume, part_of(5))
    volume.close()
    file = keep_dir / "held" / str(LINEAGE) / "5" / "0-of-1" / "state.pt"
    match change:
        case "content":
            file.write_bytes(b"WEIGHTS")
        case "more":
            (file.parent / "new").touch()
        case "less":
            os.truncate(file, 3)
        case "time":
            os.utime(file, ns=(1, 1))
        case "removed":
            file.unlink()
        case _:
            file.unlink()
            file.symlink_to("/etc/passwd")
    assert open_volume(keep_dir, reports).holdings() == {}
    assert [str(file.parent) in sentence for sentence in reports] == [True]


@pytest.mark.parametrize(
    "name",
    ["x", "3.abc123/x", "3.abc123/5/x", "3.abc123/5/9-of-2", "3.abc123/5/00-of-1", "../held/y", "3.abc123/05/0-of-1"],
)
def test_foreign_names_below_held_are_no_parts(keep_dir: Path, name: str) -> None:
    open_volume(keep_dir).close()
    write_files(keep_dir / "held" / name, FILES)
    assert open_volume(keep_dir).holdings() == {}


def test_links_below_held_lead_nowhere(keep_dir: Path) -> None:
    open_volume(keep_dir).close()
    outside = write_files(keep_dir.parent / "outside" / "5" / "0-of-1", FILES)
    (keep_dir / "held" / str(LINEAGE)).symlink_to(keep_dir.parent / "outside")
    (keep_dir / "held" / "4.abc" / "5").mkdir(parents=True)
    (keep_dir / "held" / "4.abc" / "5" / "0-of-1").symlink_to(outside)
    assert open_volume(keep_dir).holdings() == {}
    assert contents(outside) == FILES


def test_a_volume_has_one_keeper(keep_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("elasticjob_agent.keep.volume.volume._LOCK_WAIT_S", 0.0)
    first = open_volume(keep_dir)
    with pytest.raises(VolumeUnavailable, match="another keeper uses"):
        open_volume(keep_dir)
    first.close()
    open_volume(keep_dir)


def test_a_directory_that_is_a_link_is_not_used(keep_dir: Path) -> None:
    (keep_dir.parent / "elsewhere").mkdir()
    keep_dir.symlink_to(keep_dir.parent / "elsewhere")
    with pytest.raises(VolumeUnavailable, match="cannot use"):
        open_volume(keep_dir)
    assert list((keep_dir.parent / "elsewhere").iterdir()) == []


def test_the_directory_of_another_user_is_not_used(keep_dir: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give a directory away")
    keep_dir.mkdir()
    os.chown(keep_dir, 12345, 12345)
    with pytest.raises(VolumeUnavailable, match="belongs to user 12345"):
        open_volume(keep_dir)


def test_no_other_user_can_exchange_the_directories_of_a_volume(keep_dir: Path) -> None:
    keep_dir.mkdir()
    keep_dir.chmod(0o777)
    open_volume(keep_dir).close()
    assert keep_dir.stat().st_mode & 0o777 == 0o700
    Volume(keep_dir, job="/jobs/a", workers_mode=0o777)
    assert keep_dir.stat().st_mode & 0o777 == 0o755


def test_directories_have_the_modes_of_their_users(keep_dir: Path) -> None:
    volume = Volume(keep_dir, job="/jobs/a", workers_mode=0o777)
    incoming = volume.begin_round(LINEAGE)
    names = ["in", "held", "part", "kept", "trash"]
    assert [(keep_dir / name).stat().st_mode & 0o777 for name in names] == [0o755, 0o700, 0o700, 0o755, 0o700]
    assert incoming.stat().st_mode & 0o777 == 0o777


def test_an_erased_volume_leaves_nothing(keep_dir: Path) -> None:
    volume = open_volume(keep_dir)
    assert take(volume, part_of(5))
    volume.link(part_of(5).step, [0])
    volume.erase()
    assert not keep_dir.exists()


def test_nothing_is_left_of_a_lineage_whose_parts_are_dropped(keep_dir: Path) -> None:
    volume = open_volume(keep_dir)
    assert take(volume, part_of(5))
    volume.drop([part_of(5)])
    volume.begin_round(Lineage(4, "x"))
    assert list((keep_dir / "held").iterdir()) == []
    assert json.loads((keep_dir / "volume.json").read_text())["run"] == "run1"
