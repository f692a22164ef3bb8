"""The life of a context: waiting, closing, whole trees, and that nothing is left."""

import logging
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from elasticjob_agent.multiprocessing import PContext, Std, signals, start_processes
from elasticjob_agent.multiprocessing.api import MultiprocessContext, SignalException, _terminate_process_handler, _wrap
from testing.processes.census import Census
from testing.waiting import eventually
from tests.integration.multiprocessing import functions
from tests.integration.multiprocessing.conftest import Start


def _sh(*scripts: str) -> dict[int, tuple[str, str]]:
    return {rank: ("-c", script) for rank, script in enumerate(scripts)}


def _ready(path: Path) -> None:
    eventually(path.exists, within_s=30, what=str(path))


def test_b_000_26_and_k_000_04_waiting_is_bounded_by_the_timeout_not_the_period(start: Start, tmp_path: Path) -> None:
    go = tmp_path / "go"
    context = start("sh", _sh(f"while ! [ -e {go} ]; do sleep 0.02; done"))
    assert context.wait(0) is None
    before_s = time.monotonic()
    assert context.wait(0.1, period=600) is None
    assert context.wait(timeout=0.1) is None
    threading.Timer(0.1, go.touch).start()
    assert context.wait(-1, period=600)
    # Only a wait of a whole period would take this long.
    assert time.monotonic() - before_s < 300


def test_b_000_27_the_wall_clock_has_no_effect(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    context = start("sleep", {0: ("600",)})
    for step_s in (3600, -3600):
        wall_s = time.time() + step_s
        monkeypatch.setattr("time.time", lambda wall_s=wall_s: wall_s)
        assert context.wait(0.05) is None


def test_b_000_28_a_result_is_final(start: Start) -> None:
    context = start("sh", _sh("exit 3"))
    first = context.wait(60)
    context.close()
    context.shutdown()
    assert first is not None
    assert context.wait() == first == context.wait(0)
    with pytest.raises(ValueError, match="started already"):
        context.start()


def test_a_signal_that_the_kernel_gives_to_another_thread_ends_a_wait_too(start: Start) -> None:
    context = start("sleep", {0: ("600",)})
    threading.Timer(0.1, signal.raise_signal, (signal.SIGTERM,)).start()
    with pytest.raises(SignalException):
        context.wait()


def test_a_failure_is_reported_before_the_others_are_stopped(start: Start, tmp_path: Path) -> None:
    up, reported_file = tmp_path / "up", tmp_path / "reported"
    stubborn = f"trap '' TERM; touch {up}; while ! [ -e {reported_file} ]; do sleep 0.02; done"
    context = start("sh", _sh(f"while ! [ -e {up} ]; do sleep 0.02; done; exit 3", stubborn))
    reported: list[tuple[dict[int, int], int | None]] = []

    def on_failure(failures: dict[int, Any]) -> None:
        lives = context.subprocess_handlers[1].proc.poll()  # type: ignore[attr-defined]  # commands have handlers
        reported.append(({rank: failure.exitcode for rank, failure in failures.items()}, lives))
        reported_file.touch()

    context.on_failure = on_failure
    assert context.wait(60)
    assert reported == [({0: 3}, None)]


def test_a_function_that_has_sent_its_error_has_failed_before_it_ends(start: Start) -> None:
    context = start(functions.fail_and_stay, {0: ()})
    context.settle_s = 0
    reported: list[dict[int, Any]] = []
    context.on_failure = reported.append
    result = context.wait(60)
    assert result
    assert [(rank, failure.exitcode) for each in reported for rank, failure in each.items()] == [(0, 1)]
    assert "ValueError: failed" in str(reported[0][0].message)


def test_b_000_29_and_k_000_16_eight_that_ignore_sigterm_share_one_grace(start: Start, tmp_path: Path) -> None:
    ready = [tmp_path / str(rank) for rank in range(8)]
    context = start("sh", _sh(*(f"trap '' TERM; touch {path}; while :; do sleep 600; done" for path in ready)))
    for path in ready:
        _ready(path)
    before_s = time.monotonic()
    context.close(timeout=2)
    assert time.monotonic() - before_s < 12  # eight times two would be sixteen
    result = context.wait(0)
    assert result
    assert {each.exitcode for each in result.failures.values()} == {-signal.SIGKILL}
    assert all(each.stopped_by_us for each in result.failures.values())


@pytest.mark.parametrize("sig", [signal.SIGINT, signal.SIGUSR1])
def test_b_000_30_exactly_the_given_signal_reaches_the_whole_group(
    start: Start, tmp_path: Path, sig: signal.Signals
) -> None:
    context = start(functions.catch_in_two, {0: (int(sig), str(tmp_path))}, start_method="fork")
    _ready(tmp_path / "ready")
    context.close(sig, timeout=20)
    assert (tmp_path / "got").read_text() == "xx"


FAMILIES = ["same session", "own session", "double fork"]


@pytest.mark.parametrize("kind", FAMILIES)
def test_b_000_31_and_k_000_07_grandchildren_are_ended_after_a_success(
    start: Start, tmp_path: Path, kind: str, census: Census
) -> None:
    context = start(functions.family, {0: (kind, str(tmp_path / "ready"))}, start_method="fork")
    result = context.wait(60)
    assert result
    assert not result.is_failed()
    assert census.found() == []


@pytest.mark.parametrize("how", ["close", "failure"])
def test_b_000_31_grandchildren_of_dead_leaders_are_ended_too(
    start: Start, tmp_path: Path, how: str, census: Census
) -> None:
    ready = tmp_path / "ready"
    leader = f"setsid sh -c 'touch {ready}; sleep 600' & sleep 600 & while ! [ -e {ready} ]; do sleep 0.02; done"
    scripts = (
        leader,
        f"while ! [ -e {ready} ]; do sleep 0.02; done; sleep 0.2; exit 1" if how == "failure" else "sleep 600",
    )
    context = start("sh", _sh(*scripts))
    if how == "close":
        _ready(ready)
        context.close(timeout=5)
    assert context.wait(60)
    assert census.found() == []


def test_b_000_32_and_k_000_08_a_worker_that_dies_meanwhile_is_no_error(start: Start) -> None:
    context = start("sh", _sh("sleep 600", "sleep 600"))
    os.kill(context.pids()[0], signal.SIGKILL)
    context.close(timeout=5)
    assert context.wait(0)


def test_b_000_39_a_frozen_worker_is_removed(start: Start) -> None:
    context = start("sh", _sh("sleep 600"))
    os.kill(context.pids()[0], signal.SIGSTOP)
    context.close(timeout=10)
    result = context.wait(0)
    assert result
    assert result.failures[0].exitcode == -signal.SIGTERM


def test_b_000_39_a_worker_that_cannot_be_killed_is_reported(start: Start, caplog: pytest.LogCaptureFixture) -> None:
    """Simulated: a stopped fork server cannot reap."""
    context = start("sleep", {0: ("600",)})
    assert context._workers
    fork_server = context._workers._background.run(context._workers._background.supervisor()).server_pid
    os.kill(fork_server, signal.SIGSTOP)
    try:
        with caplog.at_level(logging.ERROR):
            context.close(timeout=1)
    finally:
        os.kill(fork_server, signal.SIGCONT)
    assert str(context.pids()[0]) in caplog.text
    result = context.wait(0)
    assert result
    assert result.failures[0].stopped_by_us
    context._workers._children[0].wedged = False
    context._workers.stop(signal.SIGKILL, grace_s=0, interrupted=[])


def test_b_000_40_many_contexts_leave_nothing(start: Start) -> None:
    def count() -> tuple[int, int]:
        return len(list(Path("/proc/self/fd").iterdir())), threading.active_count()

    start("true", {0: ()}).wait()
    before = count()
    for number in range(80):
        start("echo", {0: ("x",)}, tee=Std.NONE if number % 2 else Std.OUT).wait(60)
    for _ in range(20):
        start(functions.nothing, {0: ()}, start_method="fork").wait(60)
    assert count() == before


def test_close_from_another_thread_ends_a_wait(start: Start) -> None:
    before = threading.active_count()
    context = start("sleep", {0: ("600",)})
    threading.Timer(0.1, context.close).start()
    result = context.wait(60)
    assert result
    assert result.failures[0].stopped_by_us
    eventually(lambda: threading.active_count() <= before, within_s=20)


def test_b_000_40_a_close_before_the_start_has_no_effect(tmp_path: Path) -> None:
    from elasticjob_agent.multiprocessing import DefaultLogsSpecs, SubprocessContext  # noqa: PLC0415 - only here

    SubprocessContext("w", "true", {0: ()}, {0: {}}, DefaultLogsSpecs(str(tmp_path))).close()


def test_the_childs_side_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Queue(list[Any]):
        put = list.append

    monkeypatch.delenv("A", raising=False)
    values, event = Queue(), threading.Event()
    event.set()
    out = str(tmp_path / "out")
    _wrap(0, functions.variable, {0: ("A",)}, {0: {"A": "1"}}, {0: out}, {0: ""}, {0: values}, event)
    assert values == ["1"]
    assert Path(out).exists()
    monkeypatch.delenv("A")


def test_the_processes_of_a_context_can_be_read(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    context = start_processes("w", functions._wait_for, {0: (str(tmp_path / "go"),)}, log_dir=tmp_path / "logs")
    assert isinstance(context, MultiprocessContext)
    [process] = context._pc.processes
    assert (process.pid, process.name, process.exitcode, process.is_alive()) == (context.pids()[0], "w0", None, True)
    (tmp_path / "go").touch()
    assert context.wait(60)
    assert (process.exitcode, process.is_alive(), context._pc.join()) == (0, False, True)


def test_an_error_of_join_becomes_a_failure(tmp_path: Path) -> None:
    from elasticjob_agent.multiprocessing import DefaultLogsSpecs  # noqa: PLC0415 - only here

    class Process:
        exitcode = -1

    class Failed(Exception):
        error_index, error_pid = 0, 77

    class Processes:
        processes = (Process,)

        def join(self, timeout: float | None = None) -> bool:  # noqa: ARG002 - its signature
            raise Failed

    context = MultiprocessContext("w", functions.nothing, {0: ()}, {0: {}}, "spawn", DefaultLogsSpecs(str(tmp_path)))
    context._pc = Processes()
    result = context._poll()
    assert result
    assert (result.failures[0].pid, result.failures[0].exitcode) == (77, -1)
    assert result.failures[0].message == "Signal 1 (SIGHUP) received by PID 77"


def test_a_context_with_only_a_poll_is_polled_each_period() -> None:
    class Own(PContext):
        def __init__(self) -> None:
            self.checks, self._workers = 0, None

        def _start(self) -> None: ...
        def _close(self, death_sig: signal.Signals, timeout: int = 30) -> None: ...
        def pids(self) -> dict[int, int]:
            return {}

        def _poll(self) -> Any:
            self.checks += 1
            return "done" if self.checks == 3 else None

    assert Own().wait(60, period=0.01) == "done"  # type: ignore[comparison-overlap]


def test_signal_exceptions_pickle() -> None:
    import pickle  # noqa: PLC0415 - only here

    copy = pickle.loads(pickle.dumps(SignalException("text", signal.SIGTERM)))
    assert (str(copy), copy.sigval) == ("text", signal.SIGTERM)


def test_importing_touches_nothing() -> None:
    script = (
        "import sys, threading, signal, os; before = dict(os.environ);"
        "import elasticjob_agent.multiprocessing, elasticjob_agent.multiprocessing.tail_log;"
        "assert threading.active_count() == 1; assert dict(os.environ) == before;"
        "assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL;"
        "assert not {'torch', 'numpy'} & set(sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


def test_a_start_uses_only_these_attributes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs call it with an object of their own."""
    monkeypatch.setenv("TORCHELASTIC_SIGNALS_TO_HANDLE", "SIGUSR1,SIGUSR2")
    started: list[str] = []
    tail = SimpleNamespace(start=lambda: started.append("tail"))
    own: Any = SimpleNamespace(_start=lambda: started.append("workers"), _tail_logs=[tail, tail])
    before = signal.getsignal(signal.SIGUSR1)
    PContext.start(own)
    try:
        assert started == ["workers", "tail", "tail"]
        assert signal.getsignal(signal.SIGUSR1) is signal.getsignal(signal.SIGUSR2) is _terminate_process_handler
        with pytest.raises(SignalException, match=f"got signal: {int(signal.SIGUSR2)}"):
            signal.raise_signal(signal.SIGUSR2)
    finally:
        signals.release(own._handlers, _terminate_process_handler)
    assert signal.getsignal(signal.SIGUSR1) == before
