"""Which checkpoint all ranks of the example go on from."""

from typing import Any

import numpy as np
import pytest
from checkpoint import Checkpoint
from errors import ProofError
from resume import choose, newer


def offer(step: int, *, by: int = 1, content: str = "same") -> dict[str, Any]:
    return {"step": step, "by": by, "hash": content if step else None}


NOTHING = offer(0, by=0)


@pytest.mark.parametrize(
    ("offers", "root"),
    [
        pytest.param([NOTHING, NOTHING], None, id="nobody has one"),
        pytest.param([NOTHING, offer(30)], 1, id="one has one"),
        pytest.param([offer(30), NOTHING, offer(45, content="later")], 2, id="the furthest"),
        pytest.param([offer(45), NOTHING, offer(45)], 0, id="the first of equals"),
        pytest.param([offer(45), offer(45, by=2, content="other rounding")], 1, id="the latest attempt"),
    ],
)
def test_the_newest_checkpoint_is_chosen(offers: list[dict[str, Any]], root: int | None) -> None:
    assert choose(offers) == root


def test_the_same_checkpoint_with_different_parameters_is_refused_naming_ranks() -> None:
    with pytest.raises(ProofError, match="step 45 differs between nodes: ranks 0, 4 same, rank 2 altered"):
        choose([offer(45), NOTHING, offer(45, content="altered"), NOTHING, offer(45)])


def checkpoint(step: int, attempt: int = 1) -> Checkpoint:
    return Checkpoint(step, attempt, (), np.zeros(1))


def test_of_two_checkpoints_the_further_one_counts_and_then_the_one_of_the_later_attempt() -> None:
    assert newer(None, None) is None
    for other in (None, checkpoint(30), checkpoint(45)):
        found = newer(checkpoint(45, 2), other)
        assert found is not None
        assert (found.step, found.attempt) == (45, 2)
        assert newer(other, found) is found
