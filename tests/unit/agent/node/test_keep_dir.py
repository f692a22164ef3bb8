"""The directory of an agent's volume beside those of others."""

import os
from pathlib import Path

import pytest

from elasticjob_agent.node.keep_dir import KeepDirError, claim_keep_dir

JOB = "/elasticjob/cli/job1"


def test_agents_of_one_job_have_different_directories(tmp_path: Path) -> None:
    dirs = [claim_keep_dir(tmp_path, JOB, slot=None) for _ in range(3)]
    assert len({each.volume for each in dirs}) == 3
    for each in dirs:
        each.close()


def test_the_next_agent_gets_the_volume_of_one_that_was_killed(tmp_path: Path) -> None:
    first, killed, last = (claim_keep_dir(tmp_path, JOB, slot=None) for _ in range(3))
    killed.volume.mkdir()
    killed.close()  # as the kernel does; what is in it remains
    assert killed.volume.exists()
    again = claim_keep_dir(tmp_path, JOB, slot=None)
    assert again.volume == killed.volume
    for each in (first, last, again):
        each.close()


def test_an_agent_with_a_slot_gets_the_directory_of_its_slot(tmp_path: Path) -> None:
    others = [claim_keep_dir(tmp_path, JOB, slot=slot) for slot in (0, 5)]
    others[1].volume.mkdir()
    others[1].close()
    again = claim_keep_dir(tmp_path, JOB, slot=5)
    assert again.volume == others[1].volume
    third = claim_keep_dir(tmp_path, JOB, slot=5)  # the one before it has not ended yet
    assert third.volume.parent.name.endswith("-1")
    for each in (others[0], again, third):
        each.close()


def test_another_job_has_other_directories(tmp_path: Path) -> None:
    one, other = claim_keep_dir(tmp_path, JOB, slot=0), claim_keep_dir(tmp_path, JOB + "x", slot=0)
    assert one.volume != other.volume
    for each in (one, other):
        each.close()


def test_an_empty_directory_is_removed_at_the_end(tmp_path: Path) -> None:
    claim_keep_dir(tmp_path, JOB, slot=0).close()
    assert [*tmp_path.iterdir()] == []


def test_a_directory_that_cannot_be_made_is_an_error_with_its_name(tmp_path: Path) -> None:
    with pytest.raises(KeepDirError, match="No such file or directory"):
        claim_keep_dir(tmp_path / "missing", JOB, slot=0)


def test_a_link_or_a_file_in_its_place_is_passed_over(tmp_path: Path) -> None:
    first, second = _names_of(tmp_path, 2)
    first.symlink_to(tmp_path)
    second.write_text("no directory")
    third = claim_keep_dir(tmp_path, JOB, slot=0)
    assert third.volume.parent not in {first, second}
    assert (first.is_symlink(), second.read_text()) == (True, "no directory")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a directory of another user")
def test_a_directory_of_another_user_is_passed_over(tmp_path: Path) -> None:
    (first,) = _names_of(tmp_path, 1)
    first.mkdir()
    os.chown(first, 12345, 12345)
    assert claim_keep_dir(tmp_path, JOB, slot=0).volume.parent != first


def test_no_directory_is_used_if_all_names_are_taken_by_others(tmp_path: Path) -> None:
    for path in _names_of(tmp_path, 64):
        path.write_text("no directory")
    with pytest.raises(KeepDirError, match="64 directories of this job"):
        claim_keep_dir(tmp_path, JOB, slot=0)


def _names_of(shared: Path, count: int) -> list[Path]:
    """Return the paths of the first directories of this job; none of them exists."""
    dirs = [claim_keep_dir(shared, JOB, slot=None) for _ in range(count)]
    paths = [each.volume.parent for each in dirs]
    for each in dirs:
        each.close()
    return paths
