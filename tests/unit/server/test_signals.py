"""Signals reach an agent between its steps, in every phase; no step is left half done."""

import os
import signal
import threading
from collections.abc import Callable, Iterator

import pytest

from elasticjob_agent.multiprocessing import SignalException
from elasticjob_agent.rendezvous.interface import RendezvousInfo, RendezvousStoreInfo
from elasticjob_agent.rendezvous.store import InMemoryStore
from elasticjob_agent.server import RunResult, WorkerGroup, WorkerState
from elasticjob_agent.server._signals import signals_to_handle
from tests.unit.server.agents import FAILED, HEALTHY, SUCCEEDED, RecordedEvents, Rounds, ScriptedAgent, recording, spec


@pytest.fixture
def recorded() -> Iterator[RecordedEvents]:
    yield from recording("signals")


def raise_now(number: int = signal.SIGTERM) -> None:
    """Send this process a signal; in the main thread, its handler has run when this returns."""
    os.kill(os.getpid(), number)


def at(step: str, then: Callable[[], None], *, count: int = 1) -> Callable[[str], None]:
    """Return a callback that calls `then` at the `count`-th occurrence of a step."""
    left = [count]

    def on_step(now: str) -> None:
        left[0] -= now == step
        if left[0] == 0 and now == step:
            then()

    return on_step


def ends_by(agent: ScriptedAgent, number: signal.Signals = signal.SIGTERM) -> None:
    """Check that the run ends by this signal: one `_shutdown` with it, and the rendezvous is not closed."""
    with pytest.raises(SignalException) as raised:
        agent.run()
    assert raised.value.sigval is number
    assert [sigval for sigval, _ in agent.shutdowns] == [number]
    handler = agent.get_worker_group().spec.rdzv_handler
    assert isinstance(handler, Rounds)
    assert not handler.was_closed


@pytest.mark.parametrize("round_", [1, 2])
def test_b_004_25_and_b_004_30_signal_ends_a_rendezvous_that_does_not_answer(round_: int) -> None:
    handler = Rounds()
    handler.gates[round_] = threading.Event()
    handler.on_round = lambda number: raise_now() if number == round_ else None
    agent = ScriptedAgent(spec(handler), [FAILED])
    ends_by(agent)
    assert agent.did.count("start") == round_ - 1
    handler.gates[round_].set()


def test_b_004_26_signal_between_rendezvous_and_start_starts_no_worker() -> None:
    agent = ScriptedAgent(spec())
    original = agent._rendezvous

    def and_then_a_signal(worker_group: WorkerGroup) -> None:
        original(worker_group)
        raise_now()

    agent._rendezvous = and_then_a_signal  # type: ignore[method-assign]
    ends_by(agent)
    assert agent.did == ["shutdown"]


def test_b_004_27_a_signal_during_the_start_takes_effect_when_all_are_started() -> None:
    agent = ScriptedAgent(spec())
    agent.on_step = at("start", raise_now)
    ends_by(agent)
    assert agent.did == ["start", "shutdown"]
    assert agent.get_worker_group().workers[1].id == "id 2"


def test_b_004_28_and_k_004_06_signal_while_running_ends_the_wait_at_once() -> None:
    agent = ScriptedAgent(spec(monitor_interval=3600), [HEALTHY])

    def signal_then_wait(timeout: float) -> None:
        raise_now()
        agent._mailbox.wait(timeout)

    agent._wait_for_change = signal_then_wait  # type: ignore[method-assign]
    ends_by(agent)
    assert agent.did == ["start", "shutdown"]


def test_b_004_29_signal_while_a_failed_group_is_stopped_is_followed_by_no_restart() -> None:
    agent = ScriptedAgent(spec(), [FAILED])
    agent.on_step = at("stop", raise_now)
    ends_by(agent)
    assert agent.did == ["start", "check", "stop", "shutdown"]


class OneOfTwo(Rounds):
    """A node of two, where the other never ends."""

    store: InMemoryStore

    def next_rendezvous(self) -> RendezvousInfo:
        return RendezvousInfo(self.store, 0, 2, RendezvousStoreInfo("host", 29500))


def test_b_004_31_a_signal_in_the_exit_barrier_ends_it_and_the_success_is_reported(
    recorded: RecordedEvents, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TORCH_ELASTIC_WORKER_IDENTICAL", "1")
    handler = OneOfTwo()
    handler.store = InMemoryStore()

    def signal_once_it_waits() -> None:
        handler.store.get("torchelastic/agent/terminal_state/num_members")
        raise_now()

    thread = threading.Thread(target=signal_once_it_waits)
    thread.start()
    ends_by(ScriptedAgent(spec(handler, event_log_handler="signals"), [SUCCEEDED], exit_barrier_timeout=3600))
    thread.join(30)
    assert recorded.states("WORKER") == ["START", "START", "SUCCEEDED", "SUCCEEDED"]


@pytest.mark.parametrize("step", ["metrics", "shutdown"])
def test_b_004_32_signal_after_the_result_is_an_exception_and_not_lost(step: str) -> None:
    class Late(ScriptedAgent):
        def _record_metrics(self, result: RunResult) -> None:
            super()._record_metrics(result)
            self._note("metrics")

    agent = Late(spec(), [SUCCEEDED])
    agent.on_step = at(step, raise_now)
    ends_by(agent)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP, signal.SIGQUIT])
def test_b_004_33_other_signals_end_the_agent_with_their_own_number(number: signal.Signals) -> None:
    agent = ScriptedAgent(spec(), [HEALTHY])
    agent.on_step = at("check", lambda: raise_now(number), count=2)
    ends_by(agent, number)


def test_signal_that_the_kernel_gives_to_another_thread_ends_the_wait_too() -> None:
    handler = Rounds()
    handler.gates[1] = threading.Event()
    there = threading.Timer(0.2, signal.raise_signal, (signal.SIGTERM,))
    handler.on_round = lambda _: there.start()
    ends_by(ScriptedAgent(spec(handler)))
    there.join(30)
    handler.gates[1].set()


def test_b_004_33_stop_from_another_thread_is_like_the_signal() -> None:
    agent = ScriptedAgent(spec(monitor_interval=3600), [HEALTHY])
    agent.on_step = at("start", lambda: threading.Thread(target=agent.stop, args=(signal.SIGHUP,)).start())
    ends_by(agent, signal.SIGHUP)


def test_b_004_34_a_second_signal_calls_its_hook_during_the_shutdown() -> None:
    steps_at_second_signal: list[str] = []

    class Slow(ScriptedAgent):
        def _on_second_signal(self) -> None:
            steps_at_second_signal.append(self.did[-1])

    agent = Slow(spec(), [HEALTHY])
    agent.on_step = lambda step: raise_now() if step in {"check", "shutdown"} else None
    ends_by(agent)
    assert steps_at_second_signal == ["shutdown"]


def test_b_004_36_run_off_the_main_thread_works_with_one_warning_and_no_handlers(
    caplog: pytest.LogCaptureFixture,
) -> None:
    before = signal.getsignal(signal.SIGTERM)
    agent, during, results = ScriptedAgent(spec(), [SUCCEEDED]), [], []
    agent.on_step = lambda _: during.append(signal.getsignal(signal.SIGTERM))
    thread = threading.Thread(target=lambda: results.append(agent.run().state))
    thread.start()
    thread.join(30)
    assert results == [WorkerState.SUCCEEDED]
    assert set(during) == {before}
    (warning,) = [record for record in caplog.records if "main thread" in record.getMessage()]
    assert warning.levelname == "WARNING"


def test_k_004_08_handlers_are_installed_before_the_first_rendezvous_and_the_old_ones_restored_after_the_run() -> None:
    before = {number: signal.getsignal(number) for number in signals_to_handle()}
    during: list[object] = []
    handler = Rounds()
    handler.on_round = lambda _: during.extend(signal.getsignal(number) for number in before)
    ScriptedAgent(spec(handler)).run()
    assert not set(during) & set(before.values())
    assert {number: signal.getsignal(number) for number in before} == before


def test_k_004_09_signal_during_a_step_never_interrupts_it() -> None:
    agent = ScriptedAgent(spec(), [HEALTHY])
    finished: list[str] = []

    def on_step(step: str) -> None:
        if step == "check":
            raise_now()
            finished.append("the check after its signal")

    agent.on_step = on_step
    ends_by(agent)
    assert finished == ["the check after its signal"]


def test_signals_are_those_of_the_variable_with_a_warning_for_each_invalid_one(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("TORCHELASTIC_SIGNALS_TO_HANDLE", "SIGTERM, NOPE,SIGKILL,SIGUSR1")
    assert signals_to_handle() == [signal.SIGTERM, signal.SIGUSR1]
    assert [r.getMessage().rpartition("contains ")[2] for r in caplog.records] == [
        "NOPE, which is unknown",
        "SIGKILL, which cannot be caught",
    ]


def test_agent_runs_again_after_a_signal_ended_it() -> None:
    agent = ScriptedAgent(spec(), [SUCCEEDED])
    agent.stop()
    ends_by(agent)
    assert agent.run().state is WorkerState.SUCCEEDED
