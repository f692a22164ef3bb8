"""Which silent pods are left alone: those that fell silent together, unless one dead node explains it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elasticjob_operator.policy.slots.unreachable_agents import (
    SHARE_OF_INSTALLATION,
    Silence,
    is_confirmed,
    silences,
    unreachable_pods,
)
from testing.builders import by_name, pod

LEASE_S = 6.0


def fell_silent(*moments_s: float, domain: str = "") -> dict[str, Silence]:
    return {f"uid-{n}": Silence(at_s, domain or f"uid-{n}") for n, at_s in enumerate(moments_s)}


def alone(_begin_s: float, _end_s: float) -> float:
    return 0.0


def left_alone(silent: dict[str, Silence], *, agents: int, share: float = 0.0) -> frozenset[str]:
    return unreachable_pods(silent, agents=agents, lease_s=LEASE_S, installation=lambda _begin_s, _end_s: share)


@pytest.mark.parametrize(
    ("moments_s", "agents", "share", "left"),
    [
        ((), 4, 0.0, 0),
        ((100.0,), 1, 0.0, 0),  # a single silence is acted upon, also in a job of one node
        ((100.0,), 4, 0.0, 0),
        ((100.0, 101.0), 2, 0.0, 2),
        ((100.0, 101.0), 4, 0.0, 2),  # half of the job
        ((100.0, 101.0), 5, 0.0, 0),  # less than half
        ((100.0, 107.0), 4, 0.0, 0),  # not within one lease time
        ((100.0, 105.0, 110.0), 4, 0.0, 3),  # each is in a lease time with another one
        ((100.0, 100.0, 100.0, 101.0, 107.0), 9, 0.0, 0),  # no lease time has half of the job
        ((100.0, 100.0, 100.0, 101.0, 106.0), 9, 0.0, 5),
        ((100.0, 101.0, 500.0), 4, 0.0, 2),
        ((100.0,), 100, SHARE_OF_INSTALLATION, 1),  # of many small jobs
        ((100.0,), 100, SHARE_OF_INSTALLATION - 0.01, 0),
    ],
)
def test_many_that_fall_silent_together_are_left_alone(
    moments_s: tuple[float, ...], agents: int, share: float, left: int
) -> None:
    assert len(left_alone(fell_silent(*moments_s), agents=agents, share=share)) == left


def test_pods_of_one_node_that_is_not_ready_are_one_silence() -> None:
    assert not left_alone(fell_silent(100.0, 101.0, 102.0, domain="node n1"), agents=4)
    both = fell_silent(100.0, 101.0, domain="node n1") | {"uid-9": Silence(101.0, "uid-9")}
    assert left_alone(both, agents=4) == set(both)


def test_a_pod_that_is_not_ready_is_silent_with_its_node() -> None:
    ready, unready = pod(0, conditions={"Ready": "True"}), pod(1, conditions={"Ready": "False"})
    found = silences({ready.uid: 1.0, unready.uid: 2.0, "unknown": 3.0}, by_name(ready, unready))
    assert found == {
        ready.uid: Silence(1.0, ready.uid),
        unready.uid: Silence(2.0, "node node-1"),
        "unknown": Silence(3.0, "unknown"),
    }


def test_the_doubt_about_a_pod_ends_when_the_others_come_back_and_its_silence_counts_anew() -> None:
    before = frozenset({"uid-0", "uid-1", "uid-2"})
    assert is_confirmed(before, frozenset(), fell_silent(100.0)) == {"uid-0"}
    assert is_confirmed(before, before, fell_silent(100.0, 100.0, 100.0)) == frozenset()
    assert is_confirmed(before, frozenset(), {}) == frozenset()


def test_a_dead_node_that_explains_the_silence_costs_no_time() -> None:
    explained = fell_silent(100.0, 100.0, domain="node n1")
    assert is_confirmed(frozenset(explained), frozenset(), explained) == frozenset()


@given(st.lists(st.floats(0, 1000), min_size=2, max_size=30))
def test_all_of_a_job_at_once_are_always_left_alone(moments_s: list[float]) -> None:
    together = fell_silent(*(100.0 + moment_s / 1000 * LEASE_S for moment_s in moments_s))
    assert left_alone(together, agents=len(together)) == set(together)


@given(st.lists(st.floats(0, 100), max_size=30), st.integers(1, 40))
def test_only_silent_pods_are_left_alone_and_never_a_single_one(moments_s: list[float], agents: int) -> None:
    left = left_alone(fell_silent(*moments_s), agents=agents)
    assert left <= set(fell_silent(*moments_s))
    assert len(left) != 1
