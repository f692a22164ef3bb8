"""How much of etcd a job may take: by its size, never little, and always more than its agents can write."""

import pytest

from elasticjob_operator.policy.footprint import KIB, LEAST, WRITTEN, allowance
from tests.unit.operator.builders import spec, template


def test_a_small_job_may_have_what_a_larger_one_could_have_left() -> None:
    assert allowance(spec(replicas=2, nproc_per_node=4)).held == LEAST


@pytest.mark.parametrize(
    ("nodes", "ranks", "given"),
    [
        (500, 8, {"replicas": 500, "nproc_per_node": 8}),
        (1000, 8, {"replicas": 10, "max_replicas": 1000, "nproc_per_node": 8}),
        (1000, 4, {"replicas": 1000, "template": template(resources={"limits": {"nvidia.com/gpu": 4}})}),
    ],
)
def test_a_large_job_may_have_twice_of_what_its_agents_write_at_most(
    nodes: int, ranks: int, given: dict[str, object]
) -> None:
    bound = 64 * KIB + 32 * KIB * nodes + 80 * KIB * nodes * ranks
    assert 2 * bound < allowance(spec(**given)).held < 2.1 * bound


def test_what_is_written_and_what_is_held_go_together() -> None:
    made = allowance(spec(replicas=100))
    assert made.written == WRITTEN * made.held
