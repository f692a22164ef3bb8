"""The directory of a job: a step is whole or has no final name, after any end and in any order of its writers."""

import itertools
import json
import shutil
import stat
from pathlib import Path

import pytest

from elasticjob_agent.keep.persist.errors import PersistError, PersistRefused, SourceChangedError
from elasticjob_agent.keep.persist.job_dir import JobDir
from elasticjob_agent.keep.persist.layout import SourceFile, whole_name
from tests.integration.keep.parts import contents, write_files
from tests.integration.keep.persist.job_dirs import (
    JOB,
    PARTS,
    WHOLE,
    each_end,
    exchanged_before,
    step_of,
    unlimited,
    whole_directories,
    write_part,
    write_step,
)

STEP = step_of(120)


def test_the_files_of_all_parts_are_in_one_directory(directory: JobDir, tmp_path: Path) -> None:
    path = write_step(directory, tmp_path, STEP)
    assert contents(path) == WHOLE
    assert [*directory.whole_steps()] == [STEP]
    assert directory.check_whole(STEP) == path
    assert directory.unfinished_steps() == []


@pytest.mark.parametrize("order", list(itertools.permutations(PARTS)))
def test_a_step_becomes_whole_with_its_last_part_in_any_order(
    directory: JobDir, tmp_path: Path, order: tuple[int, ...]
) -> None:
    for count, index in enumerate(order, 1):
        write_part(directory, tmp_path, STEP, index, PARTS[index])
        assert directory.complete(STEP) == (count == len(PARTS))
        write_part(directory, tmp_path, STEP, index, PARTS[index])  # a second order is the same
    assert directory.complete(STEP)
    assert contents(directory.check_whole(STEP)) == WHOLE


def test_any_end_of_a_writer_leaves_no_final_directory_or_a_whole_one(shared_in_memory: Path, tmp_path: Path) -> None:
    def write() -> None:
        directory = JobDir(shared_in_memory, JOB)
        directory.open()
        write_step(directory, tmp_path, STEP)

    def reset() -> None:
        shutil.rmtree(shared_in_memory)
        shared_in_memory.mkdir()

    ends = wholes = 0
    for operation in each_end(write, reset):
        found = whole_directories(shared_in_memory)
        assert found in ({}, {whole_name(STEP): WHOLE}), f"after the end before operation {operation}"
        wholes += bool(found)
        write()  # the next writer goes on
        assert whole_directories(shared_in_memory) == {whole_name(STEP): WHOLE}
        assert JobDir(shared_in_memory, JOB).unfinished_steps() == []
        ends += 1
    assert ends > 40, "the writer had fewer file operations than a test of it needs"
    assert wholes > 1, "no end came after the final name"


def test_any_end_of_a_removal_leaves_a_whole_directory_or_none(shared_in_memory: Path, tmp_path: Path) -> None:
    def reset() -> None:
        shutil.rmtree(shared_in_memory)
        shared_in_memory.mkdir()
        directory = JobDir(shared_in_memory, JOB)
        directory.open()
        write_step(directory, tmp_path, STEP)
        write_step(directory, tmp_path, step_of(130))

    def remove() -> None:
        directory = JobDir(shared_in_memory, JOB)
        directory.remove_whole([STEP])
        directory.empty_trash()

    for operation in each_end(remove, reset):
        found = whole_directories(shared_in_memory)
        assert all(files == WHOLE for files in found.values()), f"after the end before operation {operation}"
        assert whole_name(step_of(130)) in found
    assert [*found] == [whole_name(step_of(130))]


def test_a_final_directory_is_never_written_again(directory: JobDir, tmp_path: Path) -> None:
    path = write_step(directory, tmp_path, STEP)
    before = {file: file.stat() for file in [path, *path.rglob("*")]}
    other = {index: dict.fromkeys(files, b"other") for index, files in PARTS.items()}
    for index, files in other.items():
        write_part(directory, tmp_path / "other", STEP, index, files)
    assert directory.complete(STEP)
    assert {file: file.stat() for file in before} == before
    assert directory.unfinished_steps() == []


def test_two_nodes_that_write_one_part_at_once_mix_no_files_and_write_no_whole_step_again(
    shared_in_memory: Path, tmp_path: Path
) -> None:
    """The second node comes before each single file operation of the first one, and completes the step."""
    step, names = step_of(1, parts=1), ("one", "two", "deep/three")
    seen = tmp_path / "seen"

    def write(node: str) -> None:
        directory = JobDir(shared_in_memory, JOB)
        directory.open()
        write_part(directory, tmp_path / node, step, 0, {name: node.encode() for name in names})
        directory.complete(step)

    def write_second() -> None:
        write("B")
        (whole,) = whole_directories(shared_in_memory).values()
        seen.write_text(json.dumps({name: data.decode() for name, data in whole.items()}))

    for operation in itertools.count(1):
        shutil.rmtree(shared_in_memory)
        shared_in_memory.mkdir()
        if not exchanged_before(operation, lambda: write("A"), write_second):
            break
        (whole,) = whole_directories(shared_in_memory).values()
        assert whole in [dict.fromkeys(names, node) for node in (b"A", b"B")], f"before operation {operation}"
        assert whole == {name: data.encode() for name, data in json.loads(seen.read_text()).items()}
        assert JobDir(shared_in_memory, JOB).unfinished_steps() == []
    assert operation > 20, "the writer had fewer file operations than a test of it needs"


def test_a_late_writer_of_a_step_that_was_removed_makes_no_torn_one(directory: JobDir, tmp_path: Path) -> None:
    write_step(directory, tmp_path, STEP)
    directory.remove_whole([STEP])
    write_part(directory, tmp_path, STEP, 1, PARTS[1])
    assert not directory.complete(STEP)
    assert directory.whole_steps() == {}


def test_parts_with_different_files_of_one_name_never_become_whole(directory: JobDir, tmp_path: Path) -> None:
    for index, files in PARTS.items():
        write_part(directory, tmp_path, STEP, index, {**files, "same": b"%d" % index})
    with pytest.raises(PersistRefused, match="two parts have different files 'same'"):
        directory.complete(STEP)
    assert directory.whole_steps() == {}


def test_a_step_whose_file_is_gone_is_written_again(directory: JobDir, tmp_path: Path) -> None:
    for index, files in PARTS.items():
        write_part(directory, tmp_path, STEP, index, files)
    (directory.path / ".unfinished" / str(STEP) / "files" / ".metadata").unlink()
    with pytest.raises(PersistError, match="is not as its part was written"):
        directory.complete(STEP)
    assert directory.whole_steps() == {}
    assert contents(write_step(directory, tmp_path, STEP)) == WHOLE


def test_files_that_belong_to_no_part_are_not_in_a_whole_step(directory: JobDir, tmp_path: Path) -> None:
    write_part(directory, tmp_path, STEP, 0, PARTS[0])
    write_files(directory.path / ".unfinished" / str(STEP) / "files" / "more", {"stray": b"x"})
    for index in (1, 2):
        write_part(directory, tmp_path, STEP, index, PARTS[index])
    assert directory.complete(STEP)
    assert contents(directory.check_whole(STEP)) == WHOLE


@pytest.mark.parametrize(
    "wanted", [SourceFile("state", 7), SourceFile("state", 5), SourceFile("state", 6, crc=1), SourceFile("gone", 6)]
)
def test_a_file_that_has_changed_in_memory_is_not_persisted(
    directory: JobDir, tmp_path: Path, wanted: SourceFile
) -> None:
    source = write_files(tmp_path / "part", {"state": b"123456"})
    step = step_of(1, parts=1)
    with pytest.raises(SourceChangedError):
        directory.write_part(step, 0, source, [wanted], unlimited)
    assert not directory.complete(step)


def test_all_nodes_read_the_same_id_and_other_file_systems_have_another(tmp_path: Path) -> None:
    ids = []
    for name in ("one", "one", "other"):
        (tmp_path / name).mkdir(exist_ok=True)
        ids.append(JobDir(tmp_path / name, JOB).open())
    assert ids[0] == ids[1] != ids[2]


def test_a_directory_that_is_missing_or_no_directory_is_named_in_the_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for name in ("missing", "file"):
        with pytest.raises(PersistError, match=f"cannot use .*{name}"):
            JobDir(tmp_path / name, JOB).open()


def test_a_directory_that_was_deleted_while_the_job_runs_is_an_error_with_the_cure(directory: JobDir) -> None:
    directory.path.rename(directory.path.with_name("away"))
    with pytest.raises(PersistRefused) as caught:
        directory.whole_steps()
    assert str(caught.value) == (
        f"{directory.path} was moved away or deleted; move it back, or suspend the job and remove keep.persistTo"
    )


def test_a_missing_folder_of_a_mounted_volume_is_made_for_the_group_of_the_volume(keep_dir: Path) -> None:
    keep_dir.mkdir(exist_ok=True)
    keep_dir.chmod(0o2775)
    shared = keep_dir / "team" / "checkpoints"
    JobDir(shared, JOB).open()
    JobDir(shared, JOB).open()  # a second node finds it
    for made in (shared.parent, shared):
        assert stat.S_IMODE(made.stat().st_mode) == 0o2770
        assert made.stat().st_gid == keep_dir.stat().st_gid


def test_a_missing_directory_below_no_mounted_volume_is_not_made_and_the_error_has_the_cure() -> None:
    missing = Path("/not-mounted-for-this-test/checkpoints")
    with pytest.raises(PersistError, match=r"cannot use /not-mounted-.*/checkpoints: .*keep.persistTo .*mount one"):
        JobDir(missing, JOB).open()
    assert not missing.parent.exists()
