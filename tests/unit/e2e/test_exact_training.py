"""The training of the end-to-end tests of Keep: one result at any size, and no mixture of steps is read."""

from pathlib import Path

import numpy as np
import pytest

from e2e.training.exact import SAMPLES, State, descend, first_state, gradient, read, trained, write


def train_with(world: int, steps: int) -> State:
    """Return the state after so many steps of so many workers."""
    state = first_state()
    for step in range(1, steps + 1):
        summed = np.sum([gradient(state, range(rank, SAMPLES, world)) for rank in reversed(range(world))], axis=0)
        state = State(step, (), descend(state, summed))
    return state


@pytest.mark.parametrize("world", [1, 2, 3, 4, 5, 12])
def test_any_number_of_workers_trains_the_same_parameters(world: int) -> None:
    assert train_with(world, 6).digest() == trained(6).digest()


def test_each_step_has_other_parameters() -> None:
    assert len({trained(step).digest() for step in range(13)}) == 13


@pytest.mark.parametrize("parts", [1, 2, 3])
def test_what_is_written_in_parts_is_read(parts: int, tmp_path: Path) -> None:
    state = trained(4)._replace(segments=((1, 1, 3), (2, 4, 4)))
    for part in range(parts):
        write(state, tmp_path, part=part, parts=parts)
    found = read(tmp_path, 4)
    assert (found.digest(), found.segments) == (state.digest(), state.segments)


@pytest.mark.parametrize("other", [trained(3), trained(4)._replace(segments=((1, 1, 4),))], ids=["step", "branch"])
def test_parts_of_two_steps_or_branches_are_refused(other: State, tmp_path: Path) -> None:
    write(trained(4), tmp_path, part=0, parts=2)
    write(other, tmp_path, part=1, parts=2)
    with pytest.raises(ValueError, match="too many values"):
        read(tmp_path, 4)


def test_a_step_that_lacks_a_part_is_refused(tmp_path: Path) -> None:
    write(trained(4), tmp_path, part=0, parts=2)
    with pytest.raises(AssertionError, match="bytes of parameters"):
        read(tmp_path, 4)


def test_a_part_of_other_parameters_is_another_digest(tmp_path: Path) -> None:
    write(trained(4), tmp_path, part=0, parts=1)
    (tmp_path / "shard-0").write_bytes(trained(3).parameters.tobytes())
    assert read(tmp_path, 4).digest() != trained(4).digest()
