"""Registrations of processes that write their stacks: which messages count, and what the last one means."""

import signal
from typing import Any

import pytest

from elasticjob_agent.workers.stack_signals import StackSignal, StackSignals

URG, USR1 = int(signal.SIGURG), int(signal.SIGUSR1)
BY_WARM_START = {"pid": 7, "signal": URG, "stderr": [15, 4711]}
TAKEN = {"pid": 7, "signal": URG, "taken": True}
BY_SCRIPT = {"pid": 7, "signal": USR1}


@pytest.mark.parametrize(
    ("messages", "registered"),
    [
        pytest.param([BY_WARM_START], StackSignal(URG, (15, 4711)), id="the warm start"),
        pytest.param([BY_SCRIPT], StackSignal(USR1), id="the script"),
        pytest.param([BY_WARM_START, BY_SCRIPT], StackSignal(USR1), id="the script has precedence"),
        pytest.param([BY_WARM_START, TAKEN], None, id="the script uses the signal itself"),
        pytest.param([BY_WARM_START, BY_SCRIPT, TAKEN], StackSignal(USR1), id="and another one for stacks"),
        pytest.param([TAKEN], None, id="nothing to take"),
        pytest.param([{**TAKEN, "pid": 8}, BY_WARM_START], StackSignal(URG, (15, 4711)), id="another process"),
    ],
)
def test_the_registration_of_a_process(messages: list[dict[str, Any]], registered: StackSignal | None) -> None:
    signals = StackSignals()
    assert all(signals.take(message) for message in messages)
    assert signals.get(7) == registered
    signals.clear()
    assert signals.get(7) is None


@pytest.mark.parametrize(
    "message",
    [
        None,
        [7, URG],
        {"pid": 7},
        {"pid": "7", "signal": USR1},
        {"pid": True, "signal": USR1},
        {"pid": -1, "signal": USR1},
        {"pid": 7, "signal": int(signal.SIGKILL)},
        {"pid": 7, "signal": URG},
        {"pid": 7, "signal": URG, "stderr": [15]},
        {"pid": 7, "signal": URG, "stderr": ["15", 4711]},
        {"pid": 7, "signal": URG, "stderr": "15:4711", "taken": False},
    ],
)
def test_other_messages_register_nothing(message: Any) -> None:
    signals = StackSignals()
    assert not signals.take(message)
    assert signals.get(7) is None


def test_a_flood_of_registrations_is_limited_and_known_processes_may_change_theirs() -> None:
    signals = StackSignals()
    for pid in range(1, 10_000):
        signals.take({"pid": pid, "signal": USR1})
    signals.take(BY_WARM_START)
    assert signals.get(7) == StackSignal(URG, (15, 4711))
    assert signals.get(9_999) is None
