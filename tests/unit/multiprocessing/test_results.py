"""The failure message of a worker without an error file: a core dump, an out-of-memory kill, a note."""

import signal
from pathlib import Path

import pytest

from elasticjob_agent.host.oom import OomCounter
from elasticjob_agent.multiprocessing.results import failure_of
from elasticjob_agent.supervisor import Exit

_RECEIVED = "Signal 9 (SIGKILL) received by PID 7"
_OOM = "out of memory: the kernel killed processes of this container; raise its memory limit or use less memory"


def _exit(code: int, *, core_dumped: bool = False, note: str = "") -> Exit:
    return Exit(code=code, at_s=1.0, wall_ns=1, stopped_by_us=False, note=note, core_dumped=core_dumped)


def _message(end: Exit, memory: OomCounter | None = None, *, stopped_by_us: bool = False) -> object:
    return failure_of(0, 7, end, error_file="", stopped_by_us=stopped_by_us, memory=memory).message


@pytest.fixture(params=["memory.events", "memory.oom_control"], ids=["cgroup v2", "cgroup v1"])
def counted(request: pytest.FixtureRequest, tmp_path: Path) -> OomCounter:
    """A counter that has grown since its baseline."""
    file = tmp_path / request.param
    file.write_text("oom_kill 1\n")
    counter = OomCounter(tmp_path)
    counter.take_baseline()
    file.write_text("oom_kill 2\n")
    return counter


def test_a_core_dump_is_named() -> None:
    end = _exit(-signal.SIGSEGV, core_dumped=True)
    assert _message(end) == "Signal 11 (SIGSEGV) received by PID 7 (core dumped)"


def test_an_out_of_memory_kill_is_named(counted: OomCounter) -> None:
    assert _message(_exit(-signal.SIGKILL), counted) == f"{_RECEIVED} ({_OOM})"


def test_a_kill_is_not_out_of_memory_if_the_counter_has_not_grown(counted: OomCounter) -> None:
    counted.take_baseline()
    assert _message(_exit(-signal.SIGKILL), counted) == _RECEIVED


def test_another_signal_is_not_out_of_memory(counted: OomCounter) -> None:
    assert "out of memory" not in str(_message(_exit(-signal.SIGTERM), counted))


def test_our_own_kill_is_not_out_of_memory(counted: OomCounter) -> None:
    assert _message(_exit(-signal.SIGKILL), counted, stopped_by_us=True) == _RECEIVED


def test_all_known_facts_are_named_together(counted: OomCounter) -> None:
    assert _message(_exit(-signal.SIGKILL, note="a fact"), counted) == (f"{_RECEIVED} ({_OOM}; a fact)")
