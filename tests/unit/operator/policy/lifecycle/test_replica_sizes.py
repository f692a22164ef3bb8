"""How many nodes a job should have: the wish within its bounds, rounded down to a size that is allowed."""

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
def test_the_wish_holds_within_min_and_max(fields: dict[str, Any], nodes: int) -> None:
    assert desired_nodes(spec(**fields)) == nodes


@pytest.mark.parametrize(("wish", "nodes"), [(1, 1), (2, 1), (3, 3), (4, 3), (7, 7), (8, 7)])
def test_a_wish_between_steps_from_the_smallest_is_rounded_down(wish: int, nodes: int) -> None:
    assert desired_nodes(spec(replicas=wish, min_replicas=1, max_replicas=8, replica_step=2)) == nodes


@pytest.mark.parametrize(("wish", "nodes"), [(2, 2), (3, 2), (4, 4), (7, 4), (8, 8)])
def test_a_wish_between_allowed_sizes_is_rounded_down(wish: int, nodes: int) -> None:
    fields = {"min_replicas": 2, "max_replicas": 8, "allowed_replicas": (8, 2, 4)}
    assert desired_nodes(spec(replicas=wish, **fields)) == nodes


def test_below_the_smallest_allowed_size_that_one_holds() -> None:
    fields = {"min_replicas": 2, "max_replicas": 8, "allowed_replicas": (4, 8)}
    assert desired_nodes(spec(replicas=2, **fields)) == 4


@pytest.mark.parametrize(("sizes", "nodes"), [((1, 4, 16), 4), ((16, 6), 6)])
def test_allowed_sizes_outside_min_and_max_are_never_taken(sizes: tuple[int, ...], nodes: int) -> None:
    fields = {"min_replicas": 2, "max_replicas": 8, "allowed_replicas": sizes}
    assert desired_nodes(spec(replicas=8, **fields)) == nodes
