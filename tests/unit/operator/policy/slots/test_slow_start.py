"""The batches in which pods are created."""

import pytest

from elasticjob_operator.policy.slots.slow_start import batches


@pytest.mark.parametrize(
    ("count", "sizes"),
    [(0, []), (1, [1]), (2, [1, 1]), (3, [1, 2]), (10, [1, 2, 4, 3]), (1000, [1, 2, 4, 8, 16, 32, 64, 128, 256, 489])],
)
def test_batches_double(count: int, sizes: list[int]) -> None:
    assert [len(batch) for batch in batches(range(count))] == sizes


def test_every_item_is_in_one_batch_and_in_order() -> None:
    assert [item for batch in batches(range(100)) for item in batch] == list(range(100))
