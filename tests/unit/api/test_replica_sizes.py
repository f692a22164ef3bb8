"""Allowed numbers of nodes: one table for the operator, which aims at one, and for the leader, which counts nodes."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elasticjob_api.records import SpecRecord
from elasticjob_api.replica_sizes import ReplicaSizes
from testing import builders


@pytest.mark.parametrize(
    ("sizes", "largest", "target"),
    [
        pytest.param(ReplicaSizes(min=1, max=4), [0, 1, 2, 3, 4, 4], [1, 1, 2, 3, 4, 4], id="any"),
        pytest.param(ReplicaSizes(min=3, max=3), [0, 0, 0, 3, 3, 3], [3, 3, 3, 3, 3, 3], id="a static job"),
        pytest.param(ReplicaSizes(min=2, max=4), [0, 0, 2, 3, 4, 4], [2, 2, 2, 3, 4, 4], id="from min to max"),
        pytest.param(ReplicaSizes(min=1, max=5, step=2), [0, 1, 1, 3, 3, 5], [1, 1, 1, 3, 3, 5], id="in steps"),
        pytest.param(
            ReplicaSizes(min=2, max=5, step=2), [0, 0, 2, 2, 4, 4], [2, 2, 2, 2, 4, 4], id="steps from min on"
        ),
        pytest.param(ReplicaSizes(min=1, max=5, allowed=(4, 2)), [0, 0, 2, 2, 4, 4], [2, 2, 2, 2, 4, 4], id="listed"),
        pytest.param(
            ReplicaSizes(min=3, max=5, allowed=(2, 4, 8)),
            [0, 0, 0, 0, 4, 4],
            [4, 4, 4, 4, 4, 4],
            id="listed within range",
        ),
        pytest.param(
            ReplicaSizes(min=3, max=4, allowed=(2,)), [0, 0, 0, 0, 0, 0], [3, 3, 3, 3, 4, 4], id="none within range"
        ),
        pytest.param(ReplicaSizes(min=0, max=0), [0, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0], id="none at all"),
    ],
)
def test_the_largest_allowed_number_and_the_target_of_0_to_5_nodes(
    sizes: ReplicaSizes, largest: list[int], target: list[int]
) -> None:
    assert [sizes.largest(count) for count in range(6)] == largest
    assert [sizes.target(requested) for requested in range(6)] == target


@given(
    st.integers(0, 5),
    st.integers(0, 9),
    st.integers(0, 3),
    st.lists(st.integers(1, 9), max_size=3).map(tuple),
    st.integers(0, 12),
)
def test_an_allowed_number_is_at_most_the_count_and_allowed_itself(
    least: int, most: int, step: int, allowed: tuple[int, ...], count: int
) -> None:
    sizes = ReplicaSizes(min=least, max=most, step=step, allowed=allowed)
    made = sizes.largest(count)
    assert made == 0 or (least <= made <= min(count, most) and sizes.largest(made) == made)


@pytest.mark.parametrize(
    ("fields", "nodes"),
    [
        ({"replicas": 3}, 3),
        ({"replicas": 3, "max_replicas": 8}, 3),
        ({"replicas": 3, "min_replicas": 1}, 3),
        ({"replicas": 9, "min_replicas": 2, "max_replicas": 8}, 8),
        ({"replicas": 8, "min_replicas": 1, "max_replicas": 8, "replica_step": 2}, 7),
        ({"replicas": 7, "min_replicas": 2, "max_replicas": 8, "allowed_replicas": (8, 2, 4)}, 4),
    ],
)
def test_the_desired_nodes_of_a_manifest_are_also_the_target_of_its_record(fields: dict[str, Any], nodes: int) -> None:
    spec = builders.spec(**fields)
    record = SpecRecord(
        min=spec.effective_min,
        max=spec.effective_max,
        desired=spec.desired_nodes,
        replica_step=spec.replica_step or 0,
        allowed_replicas=spec.allowed_replicas,
    )
    assert (spec.desired_nodes, record.target_size) == (nodes, nodes)
