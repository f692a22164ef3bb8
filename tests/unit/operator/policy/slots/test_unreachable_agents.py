"""Silent pods that are exempt: agents became silent together, unless one dead node explains it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elasticjob_operator.policy.slots.unreachable_agents import (
    SHARE_OF_INSTALLATION,
    Silence,
    no_longer_exempt,
    silences,
    unreachable_pods,
)
from testing.builders import by_name, pod

LEASE_S = 6.0


def silent_since(*times_s: float, domain: str = "") -> dict[str, Silence]:
    return {f"uid-{n}": Silence(at_s, domain or f"uid-{n}") for n, at_s in enumerate(times_s)}


def exempt(silent: dict[str, Silence], *, agents: int, share: float = 0.0) -> frozenset[str]:
    return unreachable_pods(silent, agents=agents, lease_s=LEASE_S, installation=lambda _begin_s, _end_s: share)


@pytest.mark.parametrize(
    ("times_s", "agents", "share", "exempt_pods"),
    [
        ((), 4, 0.0, 0),
        ((100.0,), 1, 0.0, 0),  # a single silent pod is replaced, also in a job of one node
        ((100.0,), 4, 0.0, 0),
        ((100.0, 101.0), 2, 0.0, 2),
        ((100.0, 101.0), 4, 0.0, 2),  # half of the job
        ((100.0, 101.0), 5, 0.0, 0),  # less than half
        ((100.0, 107.0), 4, 0.0, 0),  # not within one lease time
        ((100.0, 105.0, 110.0), 4, 0.0, 3),  # each is in a lease time with another one
        ((100.0, 100.0, 100.0, 101.0, 107.0), 9, 0.0, 0),  # no lease time has half of the job
        ((100.0, 100.0, 100.0, 101.0, 106.0), 9, 0.0, 5),
        ((100.0, 101.0, 500.0), 4, 0.0, 2),
        ((100.0,), 100, SHARE_OF_INSTALLATION, 1),  # many agents of other jobs
        ((100.0,), 100, SHARE_OF_INSTALLATION - 0.01, 0),
    ],
)
def test_many_pods_that_become_silent_together_are_exempt(
    times_s: tuple[float, ...], agents: int, share: float, exempt_pods: int
) -> None:
    assert len(exempt(silent_since(*times_s), agents=agents, share=share)) == exempt_pods


def test_pods_of_one_node_that_is_not_ready_count_as_one_silence() -> None:
    assert not exempt(silent_since(100.0, 101.0, 102.0, domain="node n1"), agents=4)
    both = silent_since(100.0, 101.0, domain="node n1") | {"uid-9": Silence(101.0, "uid-9")}
    assert exempt(both, agents=4) == set(both)


def test_a_pod_that_is_not_ready_is_silent_with_its_node() -> None:
    ready, unready = pod(0, conditions={"Ready": "True"}), pod(1, conditions={"Ready": "False"})
    found = silences({ready.uid: 1.0, unready.uid: 2.0, "unknown": 3.0}, by_name(ready, unready))
    assert found == {
        ready.uid: Silence(1.0, ready.uid),
        unready.uid: Silence(2.0, "node node-1"),
        "unknown": Silence(3.0, "unknown"),
    }


def test_a_pod_is_no_longer_exempt_when_the_others_come_back_and_its_silence_starts_again() -> None:
    before = frozenset({"uid-0", "uid-1", "uid-2"})
    assert no_longer_exempt(before, frozenset(), silent_since(100.0)) == {"uid-0"}
    assert no_longer_exempt(before, before, silent_since(100.0, 100.0, 100.0)) == frozenset()
    assert no_longer_exempt(before, frozenset(), {}) == frozenset()


def test_a_silence_that_a_dead_node_explains_does_not_start_again() -> None:
    explained = silent_since(100.0, 100.0, domain="node n1")
    assert no_longer_exempt(frozenset(explained), frozenset(), explained) == frozenset()


@given(st.lists(st.floats(0, 1000), min_size=2, max_size=30))
def test_all_pods_of_a_job_that_become_silent_at_once_are_always_exempt(times_s: list[float]) -> None:
    together = silent_since(*(100.0 + time_s / 1000 * LEASE_S for time_s in times_s))
    assert exempt(together, agents=len(together)) == set(together)


@given(st.lists(st.floats(0, 100), max_size=30), st.integers(1, 40))
def test_only_silent_pods_are_exempt_and_never_a_single_one(times_s: list[float], agents: int) -> None:
    exempt_pods = exempt(silent_since(*times_s), agents=agents)
    assert exempt_pods <= set(silent_since(*times_s))
    assert len(exempt_pods) != 1
