"""An event as Kubernetes stores it; a repeated one is the same object."""

from typing import Any

from elasticjob_api.constants import EventReason
from elasticjob_operator.model.event import Event
from elasticjob_operator.render.event import render_event
from testing.builders import NOW, NOW_S, ago

JOB = {"metadata": {"name": "j", "namespace": "ns", "uid": "u"}}


def rendered(message: str = "words", uid: str = "u", count: int = 1) -> dict[str, Any]:
    of = {"metadata": {**JOB["metadata"], "uid": uid}}
    return render_event(of, Event(EventReason.STALLED, message), first_s=NOW_S - 60, last_s=NOW_S, count=count)


def test_an_event_is_about_the_job_and_has_its_times_and_count() -> None:
    made = rendered(count=3)
    assert (made["involvedObject"]["name"], made["involvedObject"]["uid"]) == ("j", "u")
    assert (made["firstTimestamp"], made["lastTimestamp"], made["count"]) == (ago(60), NOW, 3)
    assert (made["reason"], made["message"], made["type"]) == ("Stalled", "words", "Normal")


def test_the_same_message_is_the_same_event_and_another_is_not() -> None:
    assert rendered(count=2)["metadata"] == rendered()["metadata"]
    names = {made["metadata"]["name"] for made in (rendered(), rendered("other"), rendered(uid="u2"))}
    assert len(names) == 3


def test_a_long_message_is_truncated_to_the_limit_of_the_api_server() -> None:
    assert len(rendered("x" * 5000)["message"]) == 1024
