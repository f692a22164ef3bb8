"""Allowed numbers of nodes."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elasticjob_agent.rendezvous.protocol import replica_sizes
from elasticjob_api.records import SpecRecord


def a_spec(least: int, most: int, **fields: Any) -> SpecRecord:
    return SpecRecord(min=least, max=most, desired=fields.pop("desired", most), **fields)


@pytest.mark.parametrize(
    ("spec", "made"),
    [
        pytest.param(a_spec(1, 4), [0, 1, 2, 3, 4, 4], id="any"),
        pytest.param(a_spec(2, 4), [0, 0, 2, 3, 4, 4], id="from min on"),
        pytest.param(a_spec(1, 5, replica_step=2), [0, 1, 1, 3, 3, 5], id="in steps, from min on"),
        pytest.param(a_spec(1, 5, allowed_replicas=(4, 2)), [0, 0, 2, 2, 4, 4], id="listed"),
        pytest.param(
            a_spec(3, 5, allowed_replicas=(2, 4, 8)), [0, 0, 0, 0, 4, 4], id="in the list and within the range"
        ),
        pytest.param(a_spec(3, 3, allowed_replicas=(2,)), [0, 0, 0, 0, 0, 0], id="none within the range"),
    ],
)
def test_the_largest_allowed_number_of_each_count(spec: SpecRecord, made: list[int]) -> None:
    assert [replica_sizes.largest_allowed(spec, count) for count in range(6)] == made


@pytest.mark.parametrize(
    ("spec", "count"),
    [
        pytest.param(a_spec(1, 8, desired=5), 5, id="as desired"),
        pytest.param(a_spec(1, 8, desired=9), 8, id="never more than max"),
        pytest.param(a_spec(2, 8, desired=1), 2, id="never fewer than min"),
        pytest.param(a_spec(1, 8, desired=5, allowed_replicas=(2, 4, 8)), 4, id="rounded down to an allowed number"),
    ],
)
def test_the_target_size(spec: SpecRecord, count: int) -> None:
    assert replica_sizes.target_size(spec) == count


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
    spec = a_spec(least, most, replica_step=step, allowed_replicas=allowed)
    made = replica_sizes.largest_allowed(spec, count)
    assert made == 0 or (least <= made <= min(count, most) and replica_sizes.largest_allowed(spec, made) == made)
