"""Reports of an agent about a run: events of workers and of itself, metrics of each pass and each run."""

import json
import socket
import time
from collections.abc import Iterator
from typing import Any

import pytest

from elasticjob_agent import events, metrics
from elasticjob_agent.events import Event, EventSource
from elasticjob_agent.metrics import MetricData, MetricHandler
from elasticjob_agent.server import RunResult, Worker
from tests.unit.server.agents import (
    FAILED,
    HEALTHY,
    SUCCEEDED,
    UNHEALTHY,
    RecordedEvents,
    ScriptedAgent,
    recording,
    result,
    spec,
)


@pytest.fixture
def recorded() -> Iterator[RecordedEvents]:
    yield from recording("reporting")


def run(script: list[Any], **fields: Any) -> ScriptedAgent:
    agent = ScriptedAgent(spec(event_log_handler="reporting", **fields), script)
    agent.run()
    return agent


def test_b_004_40_the_start_of_n_workers_is_reported_in_n_plus_2_events(recorded: RecordedEvents) -> None:
    run([SUCCEEDED])
    assert (recorded.states("AGENT"), recorded.states("WORKER")[:2]) == (
        ["RENDEZVOUS", "ASSIGN_WORKER_RANKS"],
        ["START"] * 2,
    )
    durations = [event.metadata["duration_ms"] for event in recorded.events if event.source is EventSource.AGENT]
    assert all(isinstance(duration, int) for duration in durations)


def test_b_004_40_success_has_all_keys_and_survives_json(recorded: RecordedEvents) -> None:
    begin_ms = time.time_ns() // 1_000_000
    run([SUCCEEDED])
    event = recorded.events[-1]
    assert event.name == "torchelastic.worker.status.SUCCEEDED"
    assert begin_ms <= event.timestamp <= time.time_ns() // 1_000_000
    inner = json.loads(str(event.metadata.pop("metadata")))
    assert event.metadata == {
        "run_id": "run",
        "global_rank": 1,
        "group_rank": 0,
        "worker_id": "id 2",
        "role": "trainer",
        "hostname": socket.getfqdn(socket.gethostname()),
        "state": "SUCCEEDED",
        "total_run_time": 0,
        "rdzv_backend": "rounds",
        "raw_error": None,
        "agent_restarts": 0,
        "duration_ms": None,
    }
    assert inner == {
        "group_world_size": 1,
        "entry_point": "train.sh",
        "local_rank": [1],
        "role_rank": [1],
        "role_world_size": [2],
        "exit_code": [None],
        "worker_pid": [None],
    }
    assert Event.deserialize(event.serialize()) == event


def test_b_004_40_only_the_root_cause_failed_the_others_were_terminated(recorded: RecordedEvents) -> None:
    run([result(FAILED, 1)], max_restarts=0)
    assert recorded.states("WORKER")[-2:] == ["TERMINATED", "FAILED"]
    failed = recorded.events[-1].metadata
    assert json.loads(str(failed["raw_error"])) == {"message": "<NONE>"}
    inner = json.loads(str(failed["metadata"]))
    assert (inner["exit_code"], inner["worker_pid"]) == ([1], [101])


def test_b_004_40_the_agents_end_is_reported_with_its_traceback() -> None:
    agent = ScriptedAgent(spec())
    try:
        {"a": 1}["the reason"]
    except KeyError:
        failed = agent.get_event_failed()
    assert (failed.name, failed.source) == ("torchelastic.worker.status.FAILED", EventSource.AGENT)
    assert "KeyError: 'the reason'" in str(failed.metadata["raw_error"])
    succeeded = agent.get_event_succeeded()
    assert (succeeded.metadata["state"], succeeded.metadata["worker_id"], succeeded.metadata["global_rank"]) == (
        "SUCCEEDED",
        None,
        None,
    )


@pytest.mark.parametrize(
    ("group_result", "state"),
    [
        (result(FAILED, 0), "FAILED"),
        (result(UNHEALTHY, 0), "UNHEALTHY"),
        (result(FAILED, 1), "TERMINATED"),
        (result(SUCCEEDED, 0), "SUCCEEDED"),
    ],
)
def test_b_004_40_state_of_a_worker_in_a_result(group_result: RunResult, state: str) -> None:
    assert ScriptedAgent(spec())._get_worker_state(Worker(0, 0), group_result) == state


def test_k_004_11_a_worker_that_a_success_lacks_is_an_error_but_not_of_the_run(
    caplog: pytest.LogCaptureFixture,
) -> None:
    agent = ScriptedAgent(spec(), [result(SUCCEEDED, 0)])
    with pytest.raises(ValueError, match="global rank 1 is unknown"):
        agent._get_worker_state(Worker(1, 1), result(SUCCEEDED, 0))
    assert not agent.run().is_failed()
    assert "could not record events or metrics" in caplog.text


@pytest.mark.parametrize(
    ("script", "most", "outcome"),
    [
        pytest.param([HEALTHY, SUCCEEDED], 1, "run_success_no_retries", id="success"),
        pytest.param([FAILED, SUCCEEDED], 1, "run_success_with_retries", id="success after a restart"),
        pytest.param([FAILED, FAILED], 1, "run_failed_with_retries", id="failure after a restart"),
        pytest.param([FAILED], 0, "run_failed_no_retries", id="failure without a restart"),
    ],
)
def test_b_004_41_exactly_one_outcome_of_a_run_is_1(
    script: list[Any], most: int, outcome: str, recorded: RecordedEvents
) -> None:
    run(script, max_restarts=most)
    outcomes = {name: value for name, value in recorded.values.items() if name.startswith("workers.trainer.run_")}
    assert outcomes.pop("workers.trainer.run_total") == 1
    assert [name for name, value in outcomes.items() if value == 1] == [f"workers.trainer.{outcome}"]
    assert len(outcomes) == 4


def test_b_004_41_the_flakiness_of_a_failed_run_is_100(recorded: RecordedEvents) -> None:
    run([FAILED], max_restarts=0)
    assert recorded.values["workers.trainer.flakiness"] == 100


@pytest.mark.parametrize(("most", "left", "percent"), [(10, 3, 63), (0, 0, 0), (3, 3, 0), (3, 0, 75)])
def test_b_004_41_flakiness_is_the_used_share_of_the_budget(
    most: int, left: int, percent: int, recorded: RecordedEvents
) -> None:
    agent = ScriptedAgent(spec(max_restarts=most))
    agent._remaining_restarts = left
    agent._record_flakiness_metric()
    assert recorded.values["workers.trainer.flakiness"] == percent


def test_b_004_41_each_pass_reports_its_state_and_the_restarts_left(recorded: RecordedEvents) -> None:
    run([HEALTHY, FAILED, SUCCEEDED])
    left = [data.value for data in recorded.metrics if data.name == "workers.trainer.remaining_restarts"]
    assert left == [3, 3, 2]
    names = {data.name for data in recorded.metrics}
    assert {"workers.trainer.healthy", "workers.trainer.failed", "workers.trainer.succeeded"} <= names


def test_b_004_41_profiled_methods_are_named_by_the_class_that_defines_them(recorded: RecordedEvents) -> None:
    run([FAILED, SUCCEEDED])
    profiled = {
        name.split(".")[1]
        for name in recorded.values
        if name.startswith("SimpleElasticAgent.") and name.endswith(".success")
    }
    assert profiled == {"run", "_rendezvous", "_assign_worker_ranks", "_initialize_workers", "_restart_workers"}


def test_b_004_41_handlers_that_raise_change_nothing(caplog: pytest.LogCaptureFixture) -> None:
    class Broken(MetricHandler):
        def emit(self, metric_data: MetricData) -> None:
            raise OSError(f"no metrics today, no {metric_data.name}")

    before = metrics.api._default[0]
    metrics.configure(Broken())
    try:
        assert ScriptedAgent(spec(), [SUCCEEDED]).run().state is SUCCEEDED
    finally:
        metrics.configure(before)
    assert "no metrics today" in caplog.text


def test_run_time_is_in_whole_seconds(recorded: RecordedEvents) -> None:
    agent = run([SUCCEEDED])
    assert agent._total_execution_time == int(agent._total_execution_time)
    events.record(agent.get_event_succeeded(), "reporting")
    assert recorded.events[-1].metadata["total_run_time"] == agent._total_execution_time
