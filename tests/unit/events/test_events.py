"""Events: JSON both ways, destinations by name."""

import json
import logging
import os
import pickle

import pytest

from elasticjob_agent import events
from elasticjob_agent.events import Event, EventSource, NodeState, RdzvEvent
from elasticjob_agent.events.handlers import _log_handlers


class RecordingHandler(logging.Handler):
    """Records the messages that it gets."""

    def __init__(self) -> None:
        super().__init__()
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(record.getMessage())


EVENT = Event("torchelastic.worker.status.FAILED", EventSource.WORKER, 12, {"run_id": "j", "global_rank": 3, "x": None})


def test_b_004_40_event_survives_json_and_pickle() -> None:
    assert Event.deserialize(EVENT.serialize()) == EVENT
    assert Event.deserialize(EVENT) is EVENT
    assert pickle.loads(pickle.dumps(EVENT)) == EVENT
    assert str(EVENT) == EVENT.serialize()
    assert json.loads(str(EVENT))["source"] == "WORKER"


def test_event_has_no_time_and_a_mapping_of_its_own_by_default() -> None:
    one, other = Event("a", EventSource.AGENT), Event("a", EventSource.AGENT)
    one.metadata["k"] = 1
    assert (other.timestamp, other.metadata) == (0, {})


def test_registered_destination_gets_the_event_whatever_the_log_level_is() -> None:
    handler = RecordingHandler()
    events.register("recorded by a test", handler)
    events.record(EVENT, "recorded by a test")
    assert handler.messages == [EVENT.serialize()]


def test_null_is_silent_and_console_writes_to_standard_error_as_it_is_now(capsys: pytest.CaptureFixture[str]) -> None:
    events.record(EVENT)
    assert capsys.readouterr() == ("", "")
    events.record(EVENT, "console")
    assert capsys.readouterr() == ("", EVENT.serialize() + "\n")


def test_an_unknown_destination_is_an_error_that_names_the_known_ones() -> None:
    with pytest.raises(ValueError, match="'nowhere'; it is one of console, "):
        events.record(EVENT, "nowhere")


@pytest.fixture
def rendezvous_events(monkeypatch: pytest.MonkeyPatch) -> RecordingHandler:
    handler = RecordingHandler()
    monkeypatch.setitem(_log_handlers, "dynamic_rendezvous", handler)
    return handler


def test_event_of_a_rendezvous_survives_json_and_pickle() -> None:
    event = RdzvEvent("a.py:b", "run", "text", "host", 7, NodeState.RUNNING, rank=3)
    assert RdzvEvent.deserialize(event.serialize()) == event
    assert RdzvEvent.deserialize(event) is event
    assert pickle.loads(pickle.dumps(event)) == event
    assert str(event) == event.serialize()


def test_event_of_a_rendezvous_names_the_calling_function(rendezvous_events: RecordingHandler) -> None:
    events.construct_and_record_rdzv_event("run", "joined", NodeState.RUNNING, hostname="host", rank=2)
    (event,) = map(RdzvEvent.deserialize, rendezvous_events.messages)
    name = "test_events.py:test_event_of_a_rendezvous_names_the_calling_function"
    assert event == RdzvEvent(name, "run", "joined", "host", os.getpid(), NodeState.RUNNING, rank=2)


def test_event_of_a_failed_rendezvous_has_the_traceback(rendezvous_events: RecordingHandler) -> None:
    try:
        int("no")
    except ValueError:
        events.construct_and_record_rdzv_event("run", "failed", NodeState.FAILED, name="close", hostname="h", pid=1)
    event = RdzvEvent.deserialize(rendezvous_events.messages[0])
    assert (event.name, event.pid) == ("test_events.py:close", 1)
    assert "ValueError: invalid literal" in event.error_trace


def test_an_event_of_a_rendezvous_is_discarded_without_a_handler(capsys: pytest.CaptureFixture[str]) -> None:
    events.construct_and_record_rdzv_event("run", "joined", NodeState.RUNNING)
    assert capsys.readouterr() == ("", "")


def test_logger_of_a_destination_has_its_handler_once_and_no_parents(rendezvous_events: RecordingHandler) -> None:
    logger = events._get_or_create_logger("dynamic_rendezvous")
    assert events._get_or_create_logger("dynamic_rendezvous") is logger
    logger.info("once")
    assert (rendezvous_events.messages, logger.propagate) == (["once"], False)
