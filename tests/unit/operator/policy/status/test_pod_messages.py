"""Messages about the end of a pod, and the events of its replacement."""

from typing import Any

import pytest

from elasticjob_operator.model.slot_pod import PodState, SlotPod
from elasticjob_operator.model.text import pluralize
from elasticjob_operator.policy.slots.replacement import PodDecision
from elasticjob_operator.policy.status.pod_messages import describe_exit, describe_replacements
from testing.builders import pod


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"exit_code": 3, "reason": "Error"}, "exit code 3"),
        ({"exit_code": 137, "reason": "OOMKilled"}, "it ran out of memory (OOMKilled, exit code 137)"),
        ({"reason": "Evicted", "message": "low on disk"}, "it was evicted (Evicted): low on disk"),
        ({"reason": "OutOfcpu", "is_rejected": True}, "its node did not admit it (OutOfcpu)"),
        ({"exit_code": 143, "is_disrupted": True}, "the cluster ended it (exit code 143)"),
        ({"exit_code": 255, "reason": "Unknown", "is_lost": True}, "its node lost it (Unknown, exit code 255)"),
        ({"reason": "InitContainerFailed", "message": "fetch"}, "InitContainerFailed: fetch"),
        ({"exit_code": 128, "reason": "StartError"}, "its container could not be started (StartError, exit code 128)"),
        ({}, "the reason is unknown"),
    ],
)
def test_the_end_of_a_pod_is_described_with_reason_and_exit_code(fields: dict[str, Any], message: str) -> None:
    assert describe_exit(pod(0, phase="Failed", **fields)) == message


def replacement_event(state: PodState, decision: PodDecision, **fields: Any) -> tuple[str, bool]:
    """Return message and warning of the event for one pod."""
    owners = {0: SlotPod("j-0-a", state, pod(0, **fields))}
    charged = int(decision is PodDecision.REPLACE_COUNTED)
    (event,) = describe_replacements(owners, {0: decision}, charged=charged, left=1)
    return event.message, event.warning


UNCOUNTED = "this does not count against backoffLimit"


@pytest.mark.parametrize(
    ("state", "decision", "why", "budget"),
    [
        (
            PodState.FAILED,
            PodDecision.REPLACE_COUNTED,
            "exit code 1",
            "1 failure counted against backoffLimit, 1 more failed pod may be replaced",
        ),
        (PodState.FAILED, PodDecision.REPLACE, "exit code 1", UNCOUNTED),
        (PodState.ABSENT, PodDecision.REPLACE, "it was deleted", UNCOUNTED),
        (PodState.TERMINATING, PodDecision.REPLACE, "it is being deleted", UNCOUNTED),
        (PodState.LIVE, PodDecision.REPLACE, "it is running, but its agent is gone", UNCOUNTED),
    ],
)
def test_a_replacement_event_has_the_reason_and_whether_the_pod_counts(
    state: PodState, decision: PodDecision, why: str, budget: str
) -> None:
    message, warning = replacement_event(state, decision, exit_code=1)
    assert message.startswith(f"pod j-0-a is replaced: {why}; {budget}")
    assert warning is (decision is PodDecision.REPLACE_COUNTED)


@pytest.mark.parametrize(("failing", "charged"), [(2, 1), (9, 1), (1, 0)])
def test_the_event_shows_that_pods_that_fail_together_count_once(failing: int, charged: int) -> None:
    owners = {n: SlotPod(f"j-{n}-a", PodState.FAILED, pod(n, phase="Failed", exit_code=1)) for n in range(failing)}
    decisions = dict.fromkeys(owners, PodDecision.REPLACE_COUNTED)
    counted = f"{pluralize(charged, 'failure')} counted against backoffLimit (pods that fail together count once)"
    for event in describe_replacements(owners, decisions, charged=charged, left=4):
        assert f"; {counted}, 4 more failed pods may be replaced" in event.message


def test_a_pod_that_is_kept_has_no_event() -> None:
    assert not list(
        describe_replacements({0: SlotPod("j-0-a", PodState.LIVE, pod(0))}, {0: PodDecision.KEEP}, charged=0, left=1)
    )


def test_many_replacements_at_once_have_one_event_with_their_number() -> None:
    owners = {slot: SlotPod(f"j-{slot}-a", PodState.ABSENT) for slot in range(30)}
    (event,) = describe_replacements(owners, dict.fromkeys(owners, PodDecision.REPLACE), charged=0, left=1)
    assert event.message == "30 pods are replaced; this does not count against backoffLimit"
