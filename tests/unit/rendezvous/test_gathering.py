"""How long a closer gathers changes, for how many nodes it waits, and what ends that."""

from collections.abc import Callable

import pytest

from elasticjob_agent.rendezvous.gathering import (
    LEAST_S,
    MOST_ARRIVING_S,
    MOST_S,
    Gathering,
    coalesce_s,
    gathering,
    nodes_missing,
)
from elasticjob_api.world import State
from tests.unit.rendezvous.views import KEYS, AView, a_view, seen

FEWER_THAN_MIN = seen(enough_since_s=None)
ENOUGH = seen(enough_since_s=1.0)


@pytest.mark.parametrize(
    ("planned_s", "gathered_s"), [(0.0, LEAST_S), (0.001, LEAST_S), (0.01, 0.02), (0.02, 0.04), (1.0, MOST_S)]
)
def test_changes_are_gathered_for_longer_when_a_plan_takes_longer_but_never_for_long(
    planned_s: float, gathered_s: float
) -> None:
    assert coalesce_s(planned_s) == gathered_s


@pytest.mark.parametrize(
    ("planned_s", "gathered_s"),
    [(0.0, LEAST_S), (0.0004, LEAST_S), (0.001, 0.01), (0.02, 0.2), (0.025, MOST_ARRIVING_S), (1.0, MOST_ARRIVING_S)],
)
def test_they_are_gathered_for_ten_plans_while_nodes_are_missing(planned_s: float, gathered_s: float) -> None:
    assert coalesce_s(planned_s, missing=1) == gathered_s


def mapped(least: int = 4, most: int = 6, owners: int = 6) -> AView:
    """An operator's job whose pods are all expected."""
    job = a_view(least, most).owned_by(**{f"s{slot}": f"pod-{slot}" for slot in range(owners)})
    return job.expected(*range(most)).forming(1)


@pytest.mark.parametrize(
    ("job", "missing"),
    [
        pytest.param(a_view(4, 4).nodes(0).forming(1), 3, id="the minimum"),
        pytest.param(a_view(2, 6).nodes(0).forming(1), 1, id="the minimum only: the last call must not begin late"),
        pytest.param(a_view(4, 4).nodes(0).forming(1).no_spec(), 0, id="nobody without a spec"),
        pytest.param(a_view(4, 4).nodes(0), 0, id="nobody before the first round forms: that is written at once"),
        pytest.param(a_view(4, 4).nodes(0).forming(2).members(1, 0, 1, 2, 3), 0, id="nobody after the first round"),
        pytest.param(a_view(4, 4).nodes(0).world(State.ACTIVE, 3), 0, id="nobody while a round runs"),
        pytest.param(a_view(4, 4).nodes(0).world(State.SUSPENDED, 1), 0, id="nobody while suspended"),
        pytest.param(
            a_view(4, 4).nodes(*range(5)).forming(1), 0, id="nobody when there are more than enough that do not count"
        ),
    ],
)
def test_with_fewer_than_the_minimum_there_are_missing(job: AView, missing: int) -> None:
    assert nodes_missing(job.build(), FEWER_THAN_MIN) == missing


@pytest.mark.parametrize(
    ("job", "missing"),
    [
        pytest.param(mapped().nodes(0, 1, 2, 3), 2, id="those whom the operator expects"),
        pytest.param(mapped().expected(4).nodes(0, 1, 2, 3), 1, id="no others"),
        pytest.param(mapped().expected(4).nodes(0, 1, 2, 3, 4), 0, id="nobody when only unexpected ones have not come"),
        pytest.param(mapped(owners=5).nodes(0, 1, 2, 3), 1, id="no more than the map has"),
        pytest.param(mapped().spec(desired=5).nodes(0, 1, 2, 3), 1, id="no more than are wanted"),
        pytest.param(
            mapped().spec(allowed_replicas=(4, 5)).nodes(0, 1, 2, 3, 4), 0, id="no more than a round may have"
        ),
        pytest.param(
            a_view(4, 6).nodes(0, 1, 2, 3).forming(1),
            0,
            id="nobody without an operator: a quiet second is counted from each",
        ),
    ],
)
def test_with_the_minimum_those_that_the_operator_expects_are_missing(job: AView, missing: int) -> None:
    assert nodes_missing(job.build(), ENOUGH) == missing


def after(job: AView) -> Gathering:
    """What follows on a look at this job that took 20 ms."""
    return gathering(KEYS, job.build(), FEWER_THAN_MIN, planned_s=0.02, items=len(job.items))


def test_what_was_missing_is_complete_with_so_many_more_keys() -> None:
    job = a_view(4, 4).forming(1).nodes(0, 1)
    look = after(job)
    assert not look.is_complete(job.items)
    assert not look.is_complete(job.nodes(2).items)
    assert look.is_complete(job.nodes(3).items)


def test_a_node_that_goes_meanwhile_is_missing_too() -> None:
    job = a_view(4, 4).forming(1).nodes(0, 1)
    look = after(job)
    assert not look.is_complete(job.nodes(2, 3).lost(1).items)
    assert look.is_complete(job.nodes(1).items)


def test_where_nobody_is_missing_nothing_is_ever_complete_and_no_change_waits_longer() -> None:
    job = a_view(1, 1).forming(1).nodes(0)
    look = after(job)
    assert not look.is_complete(job.nodes(1, 2, 3).items)
    assert look.longest_s == look.usual_s == 0.04


def test_more_nodes_do_not_make_a_look_outdated() -> None:
    job = a_view(4, 4).forming(1).nodes(0)
    look = after(job)
    assert not look.is_outdated(job.nodes(1, 2).lost(1).items)


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda job: job.spec(desired=3), id="another spec"),
        pytest.param(lambda job: job.no_spec(), id="no spec"),
        pytest.param(lambda job: job.expected(1), id="whom the operator expects"),
        pytest.param(lambda job: job.world(State.SUSPENDED, 1), id="another world"),
        pytest.param(lambda job: job.members(1, 0), id="members"),
    ],
)
def test_whatever_else_decides_makes_a_look_outdated(change: Callable[[AView], AView]) -> None:
    job = a_view(4, 4).forming(1).nodes(0)
    look = after(job)
    assert not look.is_outdated(job.items)
    change(job)
    assert look.is_outdated(job.items)
