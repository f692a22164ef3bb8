"""The example's checkpoint files: complete or not there, and never loaded when damaged."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from checkpoint import KEEP, Checkpoint, decode, load_kept, load_newest, newest_first, parameter_hash, publish, save
from errors import CheckpointError
from proof import Segment

SIZE = 5
LINEAGE = (Segment(1, 6, 1, 15), Segment(2, 4, 16, 30))
CHECKPOINT = Checkpoint(step=30, attempt=2, lineage=LINEAGE, parameters=np.linspace(0.0, 1.0, SIZE))


def same(one: Checkpoint | None, other: Checkpoint) -> bool:
    return one is not None and one.encode() == other.encode()


def test_a_checkpoint_is_read_back_bit_by_bit() -> None:
    read = decode(CHECKPOINT.encode(), size=SIZE)
    assert (read.step, read.attempt, read.lineage) == (30, 2, LINEAGE)
    assert parameter_hash(read.parameters) == parameter_hash(CHECKPOINT.parameters)


@pytest.mark.parametrize("byte", [0, 70, 100, -1])
def test_one_changed_byte_is_noticed(byte: int) -> None:
    content = bytearray(CHECKPOINT.encode())
    content[byte] ^= 1
    with pytest.raises(CheckpointError, match="its digest does not match"):
        decode(bytes(content), size=SIZE)


@pytest.mark.parametrize("length", [0, 10, 64, 65, 150])
def test_a_torn_file_is_noticed(length: int) -> None:
    with pytest.raises(CheckpointError, match="its digest does not match"):
        decode(CHECKPOINT.encode()[:length], size=SIZE)


def test_a_checkpoint_of_another_model_is_refused() -> None:
    with pytest.raises(CheckpointError, match="holds 5 parameters, the model has 6"):
        decode(CHECKPOINT.encode(), size=SIZE + 1)


def test_the_hash_sees_the_last_bit() -> None:
    other = CHECKPOINT.parameters.copy()
    other[0] = np.nextafter(other[0], 1.0)
    assert parameter_hash(other) != parameter_hash(CHECKPOINT.parameters)


def test_the_newest_checkpoint_is_the_furthest_then_the_latest_attempt(tmp_path: Path) -> None:
    for step, attempt in [(30, 1), (30, 2), (15, 3)]:
        save(tmp_path, replace(CHECKPOINT, step=step, attempt=attempt), node=0)
    newest, damaged = load_newest(tmp_path, size=SIZE)
    assert same(newest, CHECKPOINT)
    assert damaged == {}


def test_a_damaged_file_is_named_and_the_one_before_is_used(tmp_path: Path) -> None:
    save(tmp_path, CHECKPOINT, node=0)
    path = save(tmp_path, replace(CHECKPOINT, step=45), node=0)
    path.write_bytes(b"")
    newest, damaged = load_newest(tmp_path, size=SIZE)
    assert same(newest, CHECKPOINT)
    assert damaged == {path.name: "torn or altered: its digest does not match"}


def test_an_empty_folder_has_no_checkpoint(tmp_path: Path) -> None:
    assert load_newest(tmp_path, size=SIZE) == (None, {})


def test_old_checkpoints_go_and_no_unfinished_file_stays(tmp_path: Path) -> None:
    for step in range(15, 15 * (KEEP + 3), 15):
        save(tmp_path, replace(CHECKPOINT, step=step), node=0)
    assert len(list(tmp_path.iterdir())) == KEEP


def test_nodes_that_share_a_folder_have_files_of_their_own(tmp_path: Path) -> None:
    assert save(tmp_path, CHECKPOINT, node=0) != save(tmp_path, CHECKPOINT, node=1)
    assert len(newest_first(tmp_path)) == 2


def test_files_of_others_are_left_alone(tmp_path: Path) -> None:
    for name in ("step-1.ckpt", "step-x.attempt-1.node-0.ckpt", "notes.txt"):
        (tmp_path / name).touch()
    assert newest_first(tmp_path) == []


def test_a_published_checkpoint_has_its_name_when_it_is_whole(tmp_path: Path) -> None:
    publish(tmp_path, CHECKPOINT)
    assert [path.name for path in tmp_path.iterdir()] == ["step-30"]
    assert same(load_kept(tmp_path / "step-30", size=SIZE), CHECKPOINT)


def test_a_checkpoint_that_cannot_be_published_leaves_nothing_and_ends_nothing(tmp_path: Path) -> None:
    (tmp_path / "step-30" / "of another worker").mkdir(parents=True)
    publish(tmp_path, CHECKPOINT)
    assert [path.name for path in tmp_path.iterdir()] == ["step-30"]
    publish(tmp_path / "gone", CHECKPOINT)


def test_a_damaged_step_in_memory_is_noticed(tmp_path: Path) -> None:
    publish(tmp_path, CHECKPOINT)
    file = tmp_path / "step-30" / "digits.ckpt"
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(CheckpointError, match="its digest does not match"):
        load_kept(tmp_path / "step-30", size=SIZE)
