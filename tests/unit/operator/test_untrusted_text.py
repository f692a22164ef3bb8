"""Untrusted text in any output of the operator: one line, without terminal control characters."""

import json

import pytest

from elasticjob_api.constants import EventReason
from elasticjob_operator.cluster.api_errors import error_from_response
from elasticjob_operator.model.event import Event
from elasticjob_operator.model.pod import parse_pod
from elasticjob_operator.render.event import render_event

HOSTILE = "a\x1b]0;OWNED\x07\x9b2J\r\n2026-01-01 WARNING other/job: forged\u202e\u2028\x00"
NOW = "2026-01-02T03:04:05Z"


def container(**state: object) -> dict[str, object]:
    return {"name": "trainer", "state": state}


@pytest.mark.parametrize(
    "status",
    [
        {"phase": "Failed", "reason": HOSTILE, "message": HOSTILE},
        {"phase": "Failed", "containerStatuses": [container(terminated={"reason": HOSTILE, "message": HOSTILE})]},
        {"phase": "Failed", "initContainerStatuses": [container(terminated={"exitCode": 2, "message": HOSTILE})]},
        {"phase": "Pending", "containerStatuses": [container(waiting={"reason": HOSTILE, "message": HOSTILE})]},
        {"conditions": [{"type": "PodScheduled", "status": "False", "reason": HOSTILE, "message": HOSTILE}]},
    ],
)
def test_reason_and_message_of_a_pod_are_printable(status: dict[str, object]) -> None:
    spec = {"containers": [{"name": "trainer"}]}
    pod = parse_pod({"metadata": {"name": "j-0-a", "creationTimestamp": NOW}, "spec": spec, "status": status})
    assert "OWNED" in pod.message
    assert (pod.reason + pod.message).isprintable()


def test_reason_and_message_of_a_pod_have_the_kubelets_limits() -> None:
    pod = parse_pod({"status": {"phase": "Failed", "reason": "r" * 10**6, "message": "m" * 10**6}})
    assert (len(pod.reason), len(pod.message)) == (128, 4096)


def test_an_error_of_the_api_server_is_printable() -> None:
    body = json.dumps({"reason": "Forbidden", "message": f"no PriorityClass with name {HOSTILE} was found"})
    assert str(error_from_response(403, "POST /pods", body.encode())).isprintable()
    assert str(error_from_response(500, "POST /pods", HOSTILE.encode())).isprintable()


def test_the_message_of_an_event_is_printable() -> None:
    event = Event(EventReason.INVALID_SPEC, HOSTILE)
    assert render_event({"metadata": {"name": "j"}}, event, first_s=0.0, last_s=0.0)["message"].isprintable()
