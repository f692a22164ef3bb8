"""Events: JSON both ways, destinations by name."""

import json
import logging
import pickle

import pytest

from elasticjob_agent import events
from elasticjob_agent.events import Event, EventSource


class Kept(logging.Handler):
    """Keeps what it is told."""

    def __init__(self) -> None:
        super().__init__()
        self.said: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.said.append(record.getMessage())


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
    kept = Kept()
    events.register("kept by a test", kept)
    events.record(EVENT, "kept by a test")
    assert kept.said == [EVENT.serialize()]


def test_null_is_silent_and_console_writes_to_standard_error_as_it_is_now(capsys: pytest.CaptureFixture[str]) -> None:
    events.record(EVENT)
    assert capsys.readouterr() == ("", "")
    events.record(EVENT, "console")
    assert capsys.readouterr() == ("", EVENT.serialize() + "\n")


def test_unknown_destination_is_an_error_that_names_those_there_are() -> None:
    with pytest.raises(ValueError, match="'nowhere': known destinations are console, "):
        events.record(EVENT, "nowhere")
