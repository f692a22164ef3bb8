"""The factors of docs/same-result.md make the mean over the ranks that of the global batch."""

from collections.abc import Callable
from pathlib import Path

import pytest

from elasticjob_agent.sampler import ElasticBatchSampler

PAGE = Path(__file__).parents[3] / "docs" / "same-result.md"
SIZES = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5]
"""The tokens of each sample."""


def loss(index: int, token: int) -> float:
    return (index * 37 + token * 11) % 101 / 101


def sums(indices: list[int]) -> float:
    """Return the sum of the losses of all tokens of these samples."""
    return sum(loss(index, token) for index in indices for token in range(SIZES[index]))


FACTORS = [
    pytest.param("micro.scale", lambda indices: sums(indices) / len(indices), len(SIZES), id="mean"),
    pytest.param("micro.scale / len(micro.indices)", sums, len(SIZES), id="sum"),
    pytest.param("(micro.scale > 0) * sampler.num_replicas / tokens", sums, sum(SIZES), id="tokens"),
]


@pytest.mark.parametrize("world", [1, 2, 3, 16])
@pytest.mark.parametrize(("factor", "of_micro", "count"), FACTORS)
def test_the_factor_gives_the_mean_of_the_global_batch(
    factor: str, of_micro: Callable[[list[int]], float], count: int, world: int
) -> None:
    assert f"`{factor}`" in PAGE.read_text()
    total = 0.0
    for rank in range(world):
        sampler = ElasticBatchSampler(len(SIZES), len(SIZES), 2, num_replicas=world, rank=rank)
        for micro in sampler.micro_batches():
            known = {"micro": micro, "sampler": sampler, "tokens": sum(SIZES)}
            total += of_micro(micro.indices) * eval(factor, known)
    assert total / world == pytest.approx(sums(list(range(len(SIZES)))) / count)
