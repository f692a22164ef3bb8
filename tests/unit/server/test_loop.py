"""The loop of an agent: the consequence of each state of its workers, and the charge to the budget."""

from collections.abc import Iterator
from typing import Any

import pytest

from elasticjob_agent.rendezvous import (
    RendezvousClosedError,
    RendezvousConnectionError,
    RendezvousGracefulExitError,
    RendezvousTimeoutError,
)
from elasticjob_agent.rendezvous.interface import RendezvousInfo, RendezvousStoreInfo
from elasticjob_agent.rendezvous.store import InMemoryStore
from elasticjob_agent.server import SimpleElasticAgent, WorkerState
from tests.unit.server.agents import (
    FAILED,
    HEALTHY,
    INIT,
    STOPPED,
    SUCCEEDED,
    UNHEALTHY,
    UNKNOWN,
    RecordedEvents,
    Rounds,
    ScriptedAgent,
    recording,
    spec,
)


@pytest.fixture
def recorded() -> Iterator[RecordedEvents]:
    yield from recording("loop")


def test_b_004_12_healthy_twice_then_success_leaves_the_budget_untouched(recorded: RecordedEvents) -> None:
    agent = ScriptedAgent(spec(event_log_handler="loop"), [HEALTHY, HEALTHY, SUCCEEDED])
    result = agent.run()
    assert (result.state, result.return_values) == (SUCCEEDED, {0: "value 0", 1: "value 1"})
    assert (agent.did, agent._remaining_restarts) == (["start", "check", "check", "check", "shutdown"], 3)
    assert recorded.states("WORKER").count("START") == 2


@pytest.mark.parametrize("state", [FAILED, UNHEALTHY])
def test_b_004_13_and_k_004_05_workers_that_always_fail_use_up_the_budget_and_the_group_is_failed(
    state: WorkerState, recorded: RecordedEvents
) -> None:
    agent = ScriptedAgent(spec(), [state])
    assert agent.run().is_failed()
    assert (agent.checks, agent._remaining_restarts, agent.get_worker_group().state) == (4, 0, FAILED)
    assert recorded.values["workers.trainer.run_failed_with_retries"] == 1


def test_b_004_14_two_membership_changes_cost_no_budget() -> None:
    handler = Rounds(waiting=[1, 1])
    agent = ScriptedAgent(spec(handler), [HEALTHY, HEALTHY, SUCCEEDED])
    assert not agent.run().is_failed()
    assert (handler.rounds, agent._remaining_restarts, agent._restart_count) == (3, 3, 0)
    assert agent.did == ["start", "check", "stop", "start", "check", "stop", "start", "check", "shutdown"]


def test_waiting_nodes_are_requested_once_in_each_healthy_pass() -> None:
    handler = Rounds()
    ScriptedAgent(spec(handler), [HEALTHY, HEALTHY, HEALTHY, SUCCEEDED]).run()
    assert handler.asked == 3


@pytest.mark.parametrize("state", [UNKNOWN, INIT, STOPPED])
def test_b_004_15_states_that_no_agent_can_be_in_are_an_exception_naming_role_and_state(state: WorkerState) -> None:
    agent = ScriptedAgent(spec(), [state])
    with pytest.raises(RuntimeError, match=rf"\[default\] worker group is in state {state.name}"):
        agent.run()
    assert (agent.checks, agent._remaining_restarts, len(agent.shutdowns)) == (1, 3, 1)


def test_b_004_15_an_error_of_the_first_start_propagates_and_leaves_the_group_unchanged() -> None:
    agent = ScriptedAgent(spec())
    agent.on_step = _fails_at("start")
    with pytest.raises(OSError, match="no start"):
        agent.run()
    assert (agent.get_worker_group().state, len(agent.shutdowns)) == (INIT, 1)


def test_error_of_a_restart_propagates_and_the_group_is_unknown() -> None:
    agent = ScriptedAgent(spec(), [FAILED])
    agent.on_step = _fails_at("stop")
    with pytest.raises(OSError, match="no stop"):
        agent.run()
    assert (agent.get_worker_group().state, len(agent.shutdowns)) == (UNKNOWN, 1)


def test_b_004_16_three_restarts_in_a_row_give_fresh_ids_and_ranks_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    class Moving(Rounds):
        def next_rendezvous(self) -> RendezvousInfo:
            self.rounds += 1
            return RendezvousInfo(InMemoryStore(), self.rounds - 1, 3, RendezvousStoreInfo("host", 29500))

    monkeypatch.setenv("TORCH_ELASTIC_WORKER_IDENTICAL", "1")
    agent = ScriptedAgent(spec(Moving()))
    group, recorded = agent.get_worker_group(), []
    for _ in range(3):
        agent._restart_workers(group)
        recorded.append([(worker.id, worker.global_rank) for worker in group.workers])
    assert recorded == [[("id 1", 0), ("id 2", 1)], [("id 3", 2), ("id 4", 3)], [("id 5", 4), ("id 6", 5)]]
    assert agent.did == ["stop", "start"] * 3


class WithoutArguments(ScriptedAgent):
    def _shutdown(self) -> None:  # type: ignore[override]
        self.shutdowns.append(())


class WithSignalOnly(ScriptedAgent):
    def _shutdown(self, death_sig: Any = None) -> None:  # type: ignore[override]
        self.shutdowns.append((death_sig,))


@pytest.mark.parametrize(("kind", "count"), [(WithoutArguments, 0), (WithSignalOnly, 1), (ScriptedAgent, 2)])
@pytest.mark.parametrize("signalled", [False, True])
def test_b_004_19_shutdown_gets_what_an_override_accepts(
    kind: type[ScriptedAgent], count: int, *, signalled: bool
) -> None:
    agent = kind(spec(), [SUCCEEDED], shutdown_timeout=7)
    if signalled:
        agent.stop()
        with pytest.raises(Exception, match="got signal: 15"):
            agent.run()
    else:
        agent.run()
    assert agent.shutdowns == [(15, 7)[:count]]


TorchsGracefulExit = type("RendezvousGracefulExitError", (Exception,), {})
"""A class of torch's, because handlers of torch do not raise ours."""


@pytest.mark.parametrize("kind", [RendezvousGracefulExitError, TorchsGracefulExit])
@pytest.mark.parametrize("at", [1, 2])
def test_b_004_23_graceful_exit_of_the_rendezvous_is_no_failure(at: int, kind: type[Exception]) -> None:
    handler = Rounds()
    handler.errors[at] = kind("bye")
    agent = ScriptedAgent(spec(handler), [FAILED])
    result = agent.run()
    assert (result.is_failed(), result.return_values, result.failures) == (False, {}, {})
    assert len(agent.shutdowns) == 1


@pytest.mark.parametrize("at", [1, 2])
@pytest.mark.parametrize("kind", [RendezvousClosedError, RendezvousTimeoutError, RendezvousConnectionError])
def test_b_004_23_errors_of_the_rendezvous_propagate_and_nothing_is_closed(kind: type[Exception], at: int) -> None:
    handler = Rounds()
    handler.errors[at] = kind("sorry")
    agent = ScriptedAgent(spec(handler), [FAILED])
    with pytest.raises(kind, match="sorry"):
        agent.run()
    assert (len(agent.shutdowns), handler.was_closed, handler.was_shut_down) == (1, False, False)


def test_k_004_13_failures_soon_after_each_start_are_retried_after_growing_pauses(
    caplog: pytest.LogCaptureFixture,
) -> None:
    ScriptedAgent(spec(max_restarts=3), [FAILED]).run()
    messages = [r.getMessage() for r in caplog.records if "in a row" in r.getMessage()]
    assert [line.rpartition("next try in ")[2] for line in messages] == ["0.25 s", "0.5 s"]
    assert "uses up the restarts" in messages[0]


def test_an_agent_without_a_rendezvous_handler_raises() -> None:
    own = spec()
    own.rdzv_handler = None
    with pytest.raises(ValueError, match="a rendezvous handler is needed"):
        ScriptedAgent(own).run()


def test_worker_group_is_the_live_object() -> None:
    agent = ScriptedAgent(spec())
    group = agent.get_worker_group("any role")
    agent.run()
    assert group is agent.get_worker_group()
    assert (group.state, group.group_rank, group.group_world_size) == (SUCCEEDED, 0, 1)
    assert (group.master_addr, group.master_port) == ("host", 29500)


def test_an_abstract_agent_cannot_be_created() -> None:
    with pytest.raises(TypeError, match="abstract"):
        SimpleElasticAgent(spec())  # type: ignore[abstract]


def _fails_at(step: str) -> Any:
    def on_step(now: str) -> None:
        if now == step:
            raise OSError(f"no {step}")

    return on_step
