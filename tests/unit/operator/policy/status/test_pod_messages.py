"""Why a pod goes, in words; and how its replacement is told."""

from typing import Any

import pytest

from elasticjob_operator.policy.slots.ownership import PodState, SlotPod
from elasticjob_operator.policy.slots.replacement import PodDecision
from elasticjob_operator.policy.status.pod_messages import describe_exit, describe_replacements
from testing.builders import pod


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"exit_code": 3, "reason": "Error"}, "exit code 3"),
        ({"exit_code": 137, "reason": "OOMKilled"}, "it ran out of memory (OOMKilled, exit code 137)"),
        ({"reason": "Evicted", "message": "low on disk"}, "it was evicted (Evicted): low on disk"),
        ({"reason": "OutOfcpu", "is_rejected": True}, "its node did not admit it (OutOfcpu)"),
        ({"exit_code": 143, "is_disrupted": True}, "the cluster ended it (exit code 143)"),
        ({"reason": "InitContainerFailed", "message": "fetch"}, "InitContainerFailed: fetch"),
        ({"exit_code": 128, "reason": "StartError"}, "its container could not be started (StartError, exit code 128)"),
        ({}, "no reason is known"),
    ],
)
def test_an_end_is_told_in_words_with_the_facts_behind_it(fields: dict[str, Any], words: str) -> None:
    assert describe_exit(pod(0, phase="Failed", **fields)) == words


def told(standing: PodState, fate: PodDecision, **fields: Any) -> tuple[str, bool]:
    each = pod(0, **fields)
    (event,) = describe_replacements(
        {0: SlotPod("j-0-a", standing, each)}, {0: fate}, charged=int(fate is PodDecision.REPLACE_COUNTED), left=1
    )
    return event.message, event.warning


@pytest.mark.parametrize(
    ("standing", "fate", "why", "budget"),
    [
        (PodState.FAILED, PodDecision.REPLACE_COUNTED, "exit code 1", "1 counted, 1 more failed pod may be replaced"),
        (PodState.FAILED, PodDecision.REPLACE, "exit code 1", "it is not counted"),
        (PodState.ABSENT, PodDecision.REPLACE, "it was deleted", "it is not counted"),
        (PodState.TERMINATING, PodDecision.REPLACE, "it is being deleted", "it is not counted"),
        (PodState.LIVE, PodDecision.REPLACE, "it runs, but its agent is gone", "it is not counted"),
    ],
)
def test_a_replacement_says_why_and_whether_it_counts(
    standing: PodState, fate: PodDecision, why: str, budget: str
) -> None:
    message, warning = told(standing, fate, exit_code=1)
    assert message.startswith(f"pod j-0-a is replaced: {why}; {budget}")
    assert warning is (fate is PodDecision.REPLACE_COUNTED)


@pytest.mark.parametrize(("failing", "charged"), [(2, 1), (9, 1), (1, 0)])
def test_pods_that_fail_together_are_said_to_count_once(failing: int, charged: int) -> None:
    owners = {n: SlotPod(f"j-{n}-a", PodState.FAILED, pod(n, phase="Failed", exit_code=1)) for n in range(failing)}
    fates = dict.fromkeys(owners, PodDecision.REPLACE_COUNTED)
    for event in describe_replacements(owners, fates, charged=charged, left=4):
        assert f"{charged} counted (pods that fail together count once), 4 more failed pods" in event.message


def test_a_pod_that_stays_is_not_told() -> None:
    assert not list(
        describe_replacements({0: SlotPod("j-0-a", PodState.LIVE, pod(0))}, {0: PodDecision.KEEP}, charged=0, left=1)
    )


def test_of_many_at_once_the_count_is_told() -> None:
    owners = {slot: SlotPod(f"j-{slot}-a", PodState.ABSENT) for slot in range(30)}
    (event,) = describe_replacements(owners, dict.fromkeys(owners, PodDecision.REPLACE), charged=0, left=1)
    assert event.message == "30 pods are replaced; it is not counted"
