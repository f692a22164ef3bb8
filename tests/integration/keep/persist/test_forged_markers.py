"""Markers that no writer made: they cost little memory, complete nothing, and their step is written again."""

import os
from pathlib import Path

import pytest

from elasticjob_agent.keep.persist import markers
from elasticjob_agent.keep.persist.errors import PersistRefused
from elasticjob_agent.keep.persist.job_dir import JobDir
from elasticjob_agent.keep.persist.layout import PersistedFile
from tests.integration.keep.parts import contents
from tests.integration.keep.persist.job_dirs import PARTS, WHOLE, step_of, write_part, write_step

STEP = step_of(120)


@pytest.fixture
def parts(directory: JobDir, tmp_path: Path) -> Path:
    """The markers of a step of which all parts are written."""
    for index, files in PARTS.items():
        write_part(directory, tmp_path, STEP, index, files)
    return directory.path / ".unfinished" / str(STEP) / "parts"


def is_refused_and_written_again(directory: JobDir, tmp_path: Path, why: str) -> bool:
    with pytest.raises(PersistRefused, match=why):
        directory.complete(STEP)
    assert directory.unfinished_steps() == []
    assert directory.whole_steps() == {}
    return contents(write_step(directory, tmp_path, STEP)) == WHOLE


def test_one_file_under_the_names_of_several_markers(directory: JobDir, parts: Path, tmp_path: Path) -> None:
    (parts / "1.json").unlink()
    os.link(parts / "0.json", parts / "1.json")
    assert is_refused_and_written_again(directory, tmp_path, r"0\.json .* is no file of a writer")


def test_a_marker_above_the_bound_is_not_read(directory: JobDir, parts: Path, tmp_path: Path) -> None:
    os.truncate(parts / "1.json", markers.MARKER_BYTES + 1)
    assert is_refused_and_written_again(directory, tmp_path, r"1\.json has 8388609 bytes")


def test_markers_that_together_are_above_the_bound_are_not_read(directory: JobDir, tmp_path: Path) -> None:
    count = markers.STEP_BYTES // markers.MARKER_BYTES + 1
    step = step_of(130, parts=count)
    write_part(directory, tmp_path, step, 0, PARTS[0])
    parts = directory.path / ".unfinished" / str(step) / "parts"
    for index in range(count):
        (parts / f"{index}.json").touch()
        os.truncate(parts / f"{index}.json", markers.MARKER_BYTES)
    with pytest.raises(PersistRefused, match=f"the lists of files have {count << 23} bytes"):
        directory.complete(step)
    assert directory.unfinished_steps() == []


def test_a_link_in_the_place_of_a_marker(directory: JobDir, parts: Path, tmp_path: Path) -> None:
    (parts / "1.json").rename(tmp_path / "1.json")
    (parts / "1.json").symlink_to(tmp_path / "1.json")
    assert is_refused_and_written_again(directory, tmp_path, r"1\.json .* is no file of a writer")


def test_no_marker_is_written_that_no_reader_takes() -> None:
    file = PersistedFile("x" * markers.MARKER_BYTES, 1, 0)
    with pytest.raises(PersistRefused, match="write fewer files"):
        markers.encode([file])
