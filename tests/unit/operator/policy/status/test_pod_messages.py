"""Why a pod goes, in words; and how its replacement is told."""

from typing import Any

import pytest

from elasticjob_operator.policy.slots.ownership import Owner, Standing
from elasticjob_operator.policy.slots.replacement import Fate
from elasticjob_operator.policy.status.pod_messages import how_it_ended, replacements
from testing.builders import pod


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"exit_code": 3, "reason": "Error"}, "exit code 3"),
        ({"exit_code": 137, "reason": "OOMKilled"}, "it ran out of memory (OOMKilled, exit code 137)"),
        ({"reason": "Evicted", "message": "low on disk"}, "it was evicted (Evicted): low on disk"),
        ({"reason": "OutOfcpu", "refused": True}, "its node did not admit it (OutOfcpu)"),
        ({"exit_code": 143, "disrupted": True}, "the cluster ended it (exit code 143)"),
        ({"reason": "InitContainerFailed", "message": "fetch"}, "InitContainerFailed: fetch"),
        ({"exit_code": 128, "reason": "StartError"}, "its container could not be started (StartError, exit code 128)"),
        ({}, "no reason is known"),
    ],
)
def test_an_end_is_told_in_words_with_the_facts_behind_it(fields: dict[str, Any], words: str) -> None:
    assert how_it_ended(pod(0, phase="Failed", **fields)) == words


def told(standing: Standing, fate: Fate, **fields: Any) -> tuple[str, bool]:
    each = pod(0, **fields)
    (event,) = replacements(
        {0: Owner("j-0-a", standing, each)}, {0: fate}, charged=int(fate is Fate.REPLACE_COUNTED), left=1
    )
    return event.message, event.warning


@pytest.mark.parametrize(
    ("standing", "fate", "why", "budget"),
    [
        (Standing.FAILED, Fate.REPLACE_COUNTED, "exit code 1", "1 counted, 1 more failed pod may be replaced"),
        (Standing.FAILED, Fate.REPLACE, "exit code 1", "it is not counted"),
        (Standing.GONE, Fate.REPLACE, "it was deleted", "it is not counted"),
        (Standing.TERMINATING, Fate.REPLACE, "it is being deleted", "it is not counted"),
        (Standing.LIVE, Fate.REPLACE, "it runs, but its agent is gone", "it is not counted"),
    ],
)
def test_a_replacement_says_why_and_whether_it_counts(standing: Standing, fate: Fate, why: str, budget: str) -> None:
    message, warning = told(standing, fate, exit_code=1)
    assert message.startswith(f"pod j-0-a is replaced: {why}; {budget}")
    assert warning is (fate is Fate.REPLACE_COUNTED)


@pytest.mark.parametrize(("failing", "charged"), [(2, 1), (9, 1), (1, 0)])
def test_pods_that_fail_together_are_said_to_count_once(failing: int, charged: int) -> None:
    owners = {n: Owner(f"j-{n}-a", Standing.FAILED, pod(n, phase="Failed", exit_code=1)) for n in range(failing)}
    fates = dict.fromkeys(owners, Fate.REPLACE_COUNTED)
    for event in replacements(owners, fates, charged=charged, left=4):
        assert f"{charged} counted (pods that fail together count once), 4 more failed pods" in event.message


def test_a_pod_that_stays_is_not_told() -> None:
    assert not list(replacements({0: Owner("j-0-a", Standing.LIVE, pod(0))}, {0: Fate.KEEP}, charged=0, left=1))


def test_of_many_at_once_the_count_is_told() -> None:
    owners = {slot: Owner(f"j-{slot}-a", Standing.GONE) for slot in range(30)}
    (event,) = replacements(owners, dict.fromkeys(owners, Fate.REPLACE), charged=0, left=1)
    assert event.message == "30 pods are replaced; it is not counted"
