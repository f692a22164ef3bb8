"""Words of strangers, wherever the operator repeats them: in one line, and nothing that a terminal obeys."""

import json

import pytest

from elasticjob_api.constants import EventReason
from elasticjob_operator.cluster.api_errors import error_from_response
from elasticjob_operator.model.event import Event
from elasticjob_operator.model.one_line import one_line
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
def test_what_a_pod_says_of_itself(status: dict[str, object]) -> None:
    spec = {"containers": [{"name": "trainer"}]}
    pod = parse_pod({"metadata": {"name": "j-0-a", "creationTimestamp": NOW}, "spec": spec, "status": status})
    assert "OWNED" in pod.message
    assert (pod.reason + pod.message).isprintable()


def test_a_pod_says_no_more_than_a_kubelet_keeps() -> None:
    pod = parse_pod({"status": {"phase": "Failed", "reason": "r" * 10**6, "message": "m" * 10**6}})
    assert (len(pod.reason), len(pod.message)) == (128, 4096)


def test_what_the_api_server_quotes() -> None:
    said = json.dumps({"reason": "Forbidden", "message": f"no PriorityClass with name {HOSTILE} was found"})
    assert str(error_from_response(403, "POST /pods", said.encode())).isprintable()
    assert str(error_from_response(500, "POST /pods", HOSTILE.encode())).isprintable()


def test_what_an_event_tells_of_a_record() -> None:
    told = Event(EventReason.INVALID_SPEC, HOSTILE)
    assert render_event({"metadata": {"name": "j"}}, told, first_s=0.0, last_s=0.0)["message"].isprintable()


@pytest.mark.parametrize(
    ("text", "shown"), [("a  b", "a  b"), ("a\n\n b", "a b"), ("ü…", "ü…"), ("", ""), ("abc", "ab")]
)
def test_what_needs_no_change_gets_none(text: str, shown: str) -> None:
    assert one_line(text, 2 if text == "abc" else None) == shown
