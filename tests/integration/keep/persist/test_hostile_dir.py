"""Hostile contents of the shared directory: nothing leads to another place, and nothing keeps a writer from its end."""

import os
from pathlib import Path

import pytest

from elasticjob_agent.keep.persist.errors import PersistError, PersistRefused, WholeStepRefused
from elasticjob_agent.keep.persist.job_dir import JobDir
from elasticjob_agent.keep.persist.layout import job_dir_name, whole_name
from tests.integration.keep.parts import contents, write_files
from tests.integration.keep.persist.job_dirs import (
    JOB,
    PARTS,
    WHOLE,
    exchanged_before,
    step_of,
    whole_directories,
    write_part,
    write_step,
)

STEP = step_of(120)


@pytest.fixture
def elsewhere(tmp_path: Path) -> Path:
    return write_files(tmp_path / "elsewhere", {"secret": b"s"})


def make_levels(path: Path) -> None:
    """Make as many directories, each in the one before, as a path may have here."""
    for _ in range(1500):
        path /= "d"
        path.mkdir()


def test_names_that_are_no_steps_are_ignored(directory: JobDir, tmp_path: Path) -> None:
    whole = write_step(directory, tmp_path, STEP)
    for name in [
        "step-1",
        "step-01.1a2b3c4d.7.0000000a.3",
        "step-1.1a2b3c4d.7.0000000a.3.9",
        "step-1.1a2b3c4d.7.0000000a.70000",
        "step-9999999999999999.1a2b3c4d.7.0000000a.3",
        "step-1...3",
        "..step",
        "step-" + "1" * 240,
        "\x01\n",
    ]:
        (directory.path / name).mkdir()
    (directory.path / whole_name(step_of(1))).touch()
    (directory.path / whole_name(step_of(2))).symlink_to(whole)
    os.mkfifo(directory.path / whole_name(step_of(3)))
    assert [*directory.whole_steps()] == [STEP]


def test_thousands_of_entries_are_an_error_and_no_endless_list(directory: JobDir) -> None:
    for number in range(10_001):
        (directory.path / str(number)).touch()
    with pytest.raises(PersistRefused, match="more than 10000 entries; remove"):
        directory.whole_steps()


@pytest.mark.parametrize("name", ["", ".unfinished", ".trash", ".id"])
def test_a_link_in_the_place_of_a_directory_of_ours_is_not_followed(
    shared: Path, directory: JobDir, elsewhere: Path, tmp_path: Path, name: str
) -> None:
    path = directory.path / name
    path.rename(tmp_path / "moved")
    path.symlink_to(elsewhere)
    with pytest.raises(PersistError):
        JobDir(shared, JOB).open()
    assert contents(elsewhere) == {"secret": b"s"}


@pytest.mark.parametrize("below", ["", "files", "parts", "writing", "copied", "files/deep"])
def test_a_link_in_an_unfinished_step_is_not_followed(
    directory: JobDir, elsewhere: Path, tmp_path: Path, below: str
) -> None:
    path = directory.path / ".unfinished" / str(STEP) / below
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(elsewhere)
    with pytest.raises(PersistError):
        write_step(directory, tmp_path, STEP)
    assert contents(elsewhere) == {"secret": b"s"}
    assert directory.whole_steps() == {}


def test_links_are_removed_and_not_what_they_name(directory: JobDir, elsewhere: Path) -> None:
    for path in (directory.path / whole_name(STEP), directory.path / ".unfinished" / str(STEP)):
        path.symlink_to(elsewhere)
    directory.remove_whole([STEP])
    directory.remove_unfinished([STEP])
    directory.empty_trash()
    assert contents(elsewhere) == {"secret": b"s"}
    assert [*(directory.path / ".trash").iterdir()] == []


def test_a_link_that_comes_at_any_time_leads_no_deletion_elsewhere(shared_in_memory: Path, tmp_path: Path) -> None:
    foreign = {f".unfinished/{STEP}/a": b"1", ".trash/old/b": b"2", f"{whole_name(STEP)}/c": b"3"}

    def act() -> None:
        directory.remove_whole([STEP])
        directory.remove_unfinished([step_of(130), STEP])
        directory.empty_trash()

    operation, is_exchanged = 0, True
    while is_exchanged:
        operation += 1
        elsewhere = write_files(tmp_path / f"elsewhere{operation}", foreign)
        directory = JobDir(shared_in_memory / str(operation), JOB)
        directory.path.parent.mkdir()
        directory.open()
        write_step(directory, tmp_path, STEP)
        write_part(directory, tmp_path, step_of(130), 0, PARTS[0])

        def exchange(path: Path = directory.path, elsewhere: Path = elsewhere) -> None:
            path.rename(path.with_name("moved"))
            path.symlink_to(elsewhere)

        is_exchanged = exchanged_before(operation, act, exchange)
        assert contents(elsewhere) == foreign, f"after the exchange before operation {operation}"
    assert operation > 10, "the writer had fewer file operations than a test of it needs"


def test_the_directory_of_another_job_is_neither_read_nor_changed(shared: Path, tmp_path: Path) -> None:
    other = "/elasticjob/main/team/other/77"
    mine, theirs = JobDir(shared, JOB), JobDir(shared, other)
    for each, step in ((mine, STEP), (theirs, step_of(200))):
        each.open()
        write_step(each, tmp_path, step)
    mine.path.rename(shared / "moved")
    theirs.path.rename(mine.path)
    before = contents(mine.path)
    fresh = JobDir(shared, JOB)
    for act in (
        fresh.open,
        fresh.whole_steps,
        fresh.unfinished_steps,
        mine.whole_steps,
        lambda: mine.check_whole(step_of(200)),
        lambda: mine.complete(step_of(200)),
        lambda: mine.remove_whole([step_of(200)]),
        lambda: mine.remove_unfinished([step_of(200)]),
        lambda: write_part(mine, tmp_path, step_of(300), 0, PARTS[0]),
        mine.empty_trash,
    ):
        with pytest.raises(PersistRefused, match=r"team.llama is the directory of another job, 'team.other'"):
            act()
    assert contents(mine.path) == before


def test_a_directory_of_an_older_version_is_used_but_none_that_took_its_place(shared: Path, tmp_path: Path) -> None:
    mine = JobDir(shared, JOB)
    mine.open()
    write_step(mine, tmp_path, STEP)
    (mine.path / ".job").unlink()
    again = JobDir(shared, JOB)
    found = again.open()
    assert [*again.whole_steps()] == [STEP]
    assert (mine.path / ".job").read_text() == "team.llama"
    mine.path.rename(shared / "moved")
    assert JobDir(shared, JOB).open() != found
    (mine.path / ".job").unlink()
    with pytest.raises(PersistRefused, match="is another directory than before"):
        again.whole_steps()


@pytest.mark.parametrize("kind", ["link", "fifo"])
def test_a_whole_step_with_links_or_devices_is_not_restored(
    directory: JobDir, elsewhere: Path, tmp_path: Path, kind: str
) -> None:
    strange = write_step(directory, tmp_path, STEP) / "deep" / "strange"
    strange.symlink_to(elsewhere / "secret") if kind == "link" else os.mkfifo(strange)
    with pytest.raises(PersistRefused, match="'deep/strange' is neither a file nor a directory"):
        directory.check_whole(STEP)


def test_a_step_with_a_thousand_levels_of_directories_is_refused_and_its_rest_thrown_away(
    directory: JobDir, tmp_path: Path
) -> None:
    make_levels(write_step(directory, tmp_path, STEP))
    with pytest.raises(WholeStepRefused, match="is too deep; a file is below 8 at most"):
        directory.check_whole(STEP)
    for index, files in PARTS.items():
        write_part(directory, tmp_path, step_of(130), index, files)
    make_levels(directory.path / ".unfinished" / str(step_of(130)) / "files")
    with pytest.raises(PersistRefused, match="is too deep"):
        directory.complete(step_of(130))
    assert directory.unfinished_steps() == []
    directory.remove_whole([STEP])
    directory.empty_trash()
    assert [*(directory.path / ".trash").iterdir()] == []


@pytest.mark.parametrize(
    "marker",
    [
        b"",
        b"{}",
        b"[" * 100_000,
        b'{"v":1,"files":[["../../secret",1,0]]}',
        b'{"v":1,"files":[["/etc/passwd",1,0]]}',
        b'{"v":1,"files":[["a",-1,0]]}',
        b'{"v":1,"files":[["a","1",0]]}',
        b'{"v":1,"files":[["a\\u0000b",1,0]]}',
        b'{"v":1,"files":7}',
    ],
)
def test_a_list_of_files_that_no_writer_made_completes_nothing(
    directory: JobDir, tmp_path: Path, marker: bytes
) -> None:
    for index, files in PARTS.items():
        write_part(directory, tmp_path, STEP, index, files)
    (directory.path / ".unfinished" / str(STEP) / "parts" / "1.json").write_bytes(marker)
    with pytest.raises(PersistError):
        directory.complete(STEP)
    assert directory.whole_steps() == {}


def test_the_steps_of_another_job_in_the_same_directory_are_not_found(shared: Path, tmp_path: Path) -> None:
    other = JobDir(shared, "/elasticjob/main/team/llama2/77")
    other.open()
    write_step(other, tmp_path, STEP)
    mine = JobDir(shared, JOB)
    mine.open()
    assert mine.whole_steps() == {}
    assert [*other.whole_steps()] == [STEP]
    assert whole_directories(shared, "/elasticjob/main/team/llama2/77") == {whole_name(STEP): WHOLE}


def test_a_job_that_is_created_again_has_the_same_directory() -> None:
    assert job_dir_name("/elasticjob/main/team/llama/0d5a") == job_dir_name("/elasticjob/x/team/llama/ffff")
    assert job_dir_name("/elasticjob/main/team/llama/0d5a") == "team.llama"


@pytest.mark.parametrize("below", ["jobs", "jobs/deep"])
def test_no_link_in_a_volume_is_followed_and_the_error_has_field_and_cure(
    keep_dir: Path, elsewhere: Path, below: str
) -> None:
    keep_dir.mkdir(exist_ok=True)
    (elsewhere / "deep").mkdir()
    (keep_dir / "jobs").symlink_to(elsewhere)
    with pytest.raises(PersistRefused, match=r"'jobs' is a link that .* remove it, or let keep.persistTo .* name"):
        JobDir(keep_dir / below, JOB).open()
    assert contents(elsewhere) == {"secret": b"s"}
    assert [*(elsewhere / "deep").iterdir()] == []


def test_no_link_in_a_directory_that_others_may_write_is_followed(shared: Path, elsewhere: Path) -> None:
    (shared / "jobs").symlink_to(elsewhere)
    JobDir(shared / "jobs", "/jobs/mine").open()
    assert (elsewhere / job_dir_name("/jobs/mine")).is_dir(), "a link that only this user can have made"
    shared.chmod(0o1777)
    with pytest.raises(PersistRefused, match="'jobs' is a link"):
        JobDir(shared / "jobs", JOB).open()
    assert not (elsewhere / job_dir_name(JOB)).exists()


def test_a_link_that_comes_later_is_not_followed(keep_dir: Path) -> None:
    directory = JobDir(keep_dir / "jobs", JOB)
    keep_dir.mkdir(exist_ok=True)
    directory.open()
    (keep_dir / "jobs").rename(keep_dir / "moved")
    (keep_dir / "jobs").symlink_to(keep_dir / "moved")
    with pytest.raises(PersistRefused, match="'jobs' is a link"):
        directory.whole_steps()


def test_a_link_that_leads_to_itself_ends(shared: Path) -> None:
    (shared / "jobs").symlink_to("jobs")
    with pytest.raises(PersistError, match=r"cannot use .*jobs"):
        JobDir(shared / "jobs", JOB).open()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes a directory of another user")
def test_a_directory_that_another_user_has_made_before_the_job_is_not_used(shared: Path, tmp_path: Path) -> None:
    path = write_files(shared / job_dir_name(JOB) / whole_name(step_of(999)), {"state": b"chosen"}).parent
    path.chmod(0o777)
    os.chown(path, 1000, 1000)
    before = contents(path)
    directory = JobDir(shared, JOB)
    with pytest.raises(
        PersistRefused, match=r"team.llama in keep.persistTo belongs to user 1000, .* as user 0; delete"
    ):
        directory.open()
    assert contents(path) == before
    os.chown(path, 0, 0)
    directory.open()
    write_step(directory, tmp_path, STEP)
    os.chown(path, 1000, 1000)
    with pytest.raises(PersistRefused, match="belongs to user 1000"):
        directory.whole_steps()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes a directory of another user")
def test_a_writer_that_has_not_listed_yet_uses_no_directory_of_another_user(shared: Path, tmp_path: Path) -> None:
    files = {f"{whole_name(STEP)}/state": b"chosen", f".unfinished/{STEP}/a": b"1", ".trash/old/b": b"2"}
    path = write_files(shared / job_dir_name(JOB), files)
    os.chown(path, 1000, 1000)
    fresh = JobDir(shared, JOB)
    for act in (
        fresh.whole_steps,
        fresh.unfinished_steps,
        lambda: fresh.check_whole(STEP),
        lambda: fresh.complete(STEP),
        lambda: fresh.remove_whole([STEP]),
        lambda: fresh.remove_unfinished([STEP]),
        lambda: write_part(fresh, tmp_path, step_of(300), 0, PARTS[0]),
        fresh.empty_trash,
    ):
        with pytest.raises(PersistRefused, match="belongs to user 1000"):
            act()
    assert contents(path) == files
