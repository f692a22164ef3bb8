"""The directory in which workers find a step: all files of its parts, or none at all."""

from pathlib import Path

import pytest

from elasticjob_agent.keep.volume.errors import PartChangedError, PartMissing, PartsCollideError
from elasticjob_agent.keep.volume.volume import Volume
from elasticjob_api.kept_steps import Lineage
from tests.integration.keep.parts import LINEAGE, contents, part_of, receive, take, write_files

FIRST = {".metadata": b"m", "__0_0.distcp": b"zero", "deep/er/a": b"1"}
SECOND = {"__1_0.distcp": b"one", "deep/b": b"2"}


@pytest.fixture
def volume(keep_dir: Path) -> Volume:
    return Volume(keep_dir, job="/jobs/a", run="run1")


def test_the_files_of_all_parts_are_in_one_directory_and_share_their_memory(volume: Volume) -> None:
    assert take(volume, part_of(5, 0, 2), FIRST)
    assert receive(volume, part_of(5, 1, 2), SECOND)
    kept = volume.link(part_of(5, 0, 2).step, [0, 1])
    assert contents(kept) == FIRST | SECOND
    held = volume.open_part(part_of(5, 0, 2).step, 0).path
    assert (kept / ".metadata").samefile(held / ".metadata")


def test_a_step_is_linked_again_as_it_is_held(volume: Volume) -> None:
    assert take(volume, part_of(5), FIRST)
    kept = volume.link(part_of(5).step, [0])
    (kept / "worker's").write_bytes(b"x")
    assert contents(volume.link(part_of(5).step, [0])) == FIRST


def test_what_an_earlier_attempt_left_is_no_obstacle(volume: Volume) -> None:
    assert take(volume, part_of(5), FIRST)
    write_files(volume.root / "kept" / f".{part_of(5).step}.tmp", {"left": b"x"})
    assert contents(volume.link(part_of(5).step, [0])) == FIRST


def test_a_part_that_is_not_held_is_missing(volume: Volume) -> None:
    assert take(volume, part_of(5, 0, 2), FIRST)
    with pytest.raises(PartMissing):
        volume.link(part_of(5, 0, 2).step, [0, 1])
    assert list((volume.root / "kept").iterdir()) == []


def test_equal_files_of_one_name_are_one_file(volume: Volume) -> None:
    assert take(volume, part_of(5, 0, 2), FIRST)
    assert receive(volume, part_of(5, 1, 2), SECOND | {".metadata": b"m"})
    assert contents(volume.link(part_of(5, 0, 2).step, [0, 1])) == FIRST | SECOND


@pytest.mark.parametrize("other", [{".metadata": b"M"}, {".metadata": b"mm"}, {".metadata/x": b""}, {"deep": b""}])
def test_different_files_of_one_name_collide(volume: Volume, other: dict[str, bytes]) -> None:
    assert take(volume, part_of(5, 0, 2), FIRST)
    assert receive(volume, part_of(5, 1, 2), other)
    with pytest.raises(PartsCollideError, match=r"\.metadata|deep"):
        volume.link(part_of(5, 0, 2).step, [0, 1])
    assert not (volume.root / "kept" / str(part_of(5, 0, 2).step)).exists()


def test_a_part_that_a_worker_changed_through_its_link_is_not_restored_again(volume: Volume) -> None:
    assert take(volume, part_of(5), FIRST)
    (volume.link(part_of(5).step, [0]) / ".metadata").write_bytes(b"changed")
    with pytest.raises(PartChangedError):
        volume.link(part_of(5).step, [0])
    assert volume.holdings() == {}


def test_links_stay_while_their_round_lasts_and_go_with_the_next_one(volume: Volume) -> None:
    assert take(volume, part_of(5), FIRST)
    kept = volume.link(part_of(5).step, [0])
    volume.begin_round(LINEAGE)
    assert contents(kept) == FIRST
    volume.begin_round(Lineage(4, "x"))
    assert not kept.exists()
    assert volume.holdings() == {part_of(5).step: {0}}
