"""The number of nodes of a job: `replicas` within its limits, rounded down to an allowed size."""

from typing import Any

import pytest

from elasticjob_operator.policy.lifecycle.replica_sizes import desired_nodes
from testing.builders import spec


@pytest.mark.parametrize(
    ("fields", "nodes"),
    [
        ({"replicas": 3}, 3),  # a static job
        ({"replicas": 3, "min_replicas": 2, "max_replicas": 8}, 3),
        ({"replicas": 1, "min_replicas": 2, "max_replicas": 8}, 2),
        ({"replicas": 9, "min_replicas": 2, "max_replicas": 8}, 8),
        ({"replicas": 3, "max_replicas": 8}, 3),
        ({"replicas": 3, "min_replicas": 1}, 3),
    ],
)
def test_replicas_are_limited_to_min_and_max(fields: dict[str, Any], nodes: int) -> None:
    assert desired_nodes(spec(**fields)) == nodes


@pytest.mark.parametrize(("replicas", "nodes"), [(1, 1), (2, 1), (3, 3), (4, 3), (7, 7), (8, 7)])
def test_replicas_are_rounded_down_to_min_plus_a_multiple_of_the_step(replicas: int, nodes: int) -> None:
    assert desired_nodes(spec(replicas=replicas, min_replicas=1, max_replicas=8, replica_step=2)) == nodes


@pytest.mark.parametrize(("replicas", "nodes"), [(2, 2), (3, 2), (4, 4), (7, 4), (8, 8)])
def test_replicas_between_allowed_sizes_are_rounded_down(replicas: int, nodes: int) -> None:
    fields = {"min_replicas": 2, "max_replicas": 8, "allowed_replicas": (8, 2, 4)}
    assert desired_nodes(spec(replicas=replicas, **fields)) == nodes


def test_below_the_smallest_allowed_size_the_smallest_applies() -> None:
    fields = {"min_replicas": 2, "max_replicas": 8, "allowed_replicas": (4, 8)}
    assert desired_nodes(spec(replicas=2, **fields)) == 4


@pytest.mark.parametrize(("sizes", "nodes"), [((1, 4, 16), 4), ((16, 6), 6)])
def test_allowed_sizes_outside_min_and_max_are_never_used(sizes: tuple[int, ...], nodes: int) -> None:
    fields = {"min_replicas": 2, "max_replicas": 8, "allowed_replicas": sizes}
    assert desired_nodes(spec(replicas=8, **fields)) == nodes
