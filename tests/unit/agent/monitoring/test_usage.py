"""The usage of workers: cpu as a mean over a minimum time, memory of a whole session, one pass for all workers."""

import os
from collections.abc import Collection
from pathlib import Path

import pytest

from elasticjob_agent.monitoring.usage import MIN_INTERVAL_S, UsageMeter

PAGE, TICKS = os.sysconf("SC_PAGE_SIZE"), os.sysconf("SC_CLK_TCK")


class Machine:
    """A /proc with a few processes, and a clock."""

    def __init__(self, folder: Path) -> None:
        self.now_s = 1000.0
        self.folder = folder
        self.sessions: dict[int, int] = {}
        self.meter = UsageMeter(lambda: self.now_s, self.members, folder)

    def members(self, sessions: Collection[int]) -> dict[int, int]:
        """Return pid → session of the processes in `sessions`; ended processes included."""
        return {pid: session for pid, session in self.sessions.items() if session in sessions}

    def process(self, pid: int, *, session: int, spent_s: float = 0.0, pages: int = 0, name: str = "python") -> None:
        """Start a process, or change its values."""
        self.sessions[pid] = session
        fields = ["S", "1", str(session), str(session), *["0"] * 18]
        fields[11], fields[21] = str(round(spent_s * TICKS)), str(pages)
        folder = self.folder / str(pid)
        folder.mkdir(exist_ok=True)
        (folder / "stat").write_text(f"{pid} ({name}) {' '.join(fields)} 0 0\n")

    def used(self, *leaders: int) -> dict[int, tuple[float | None, int]]:
        """Return (percent, pages) by worker."""
        found = self.meter.measure(leaders)
        return {pid: (use.cpu_percent, use.memory_bytes // PAGE) for pid, use in found.items()}


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_cpu_is_the_mean_since_the_last_sample_and_memory_is_current(machine: Machine) -> None:
    machine.process(7, session=7, pages=10)
    assert machine.used(7) == {7: (None, 10)}
    machine.now_s += 10
    machine.process(7, session=7, spent_s=5.0, pages=20)
    assert machine.used(7) == {7: (50.0, 20)}
    machine.now_s += 10
    machine.process(7, session=7, spent_s=6.0, pages=30)
    assert machine.used(7) == {7: (10.0, 30)}


def test_all_processes_of_a_workers_session_count_for_it_and_no_others(machine: Machine) -> None:
    for pid in (7, 8, 9):
        machine.process(pid, session=min(pid, 8), pages=pid)
    machine.used(7, 8)
    machine.now_s += 10
    for pid in (7, 8, 9):
        machine.process(pid, session=min(pid, 8), spent_s=pid, pages=pid)
    machine.process(10, session=10, spent_s=99, pages=99)
    assert machine.used(7, 8) == {7: (70.0, 7), 8: (170.0, 17)}


def test_a_measurement_too_soon_returns_the_last_one(machine: Machine) -> None:
    machine.process(7, session=7)
    machine.used(7)
    machine.now_s += 2 * MIN_INTERVAL_S
    machine.process(7, session=7, spent_s=MIN_INTERVAL_S, pages=1)
    machine.used(7)
    machine.now_s += MIN_INTERVAL_S / 2
    machine.process(7, session=7, spent_s=99, pages=2)
    assert machine.used(7) == {7: (50.0, 1)}


def test_a_restart_of_all_workers_causes_no_extra_pass(machine: Machine) -> None:
    machine.process(7, session=7)
    machine.used(7)
    machine.now_s += MIN_INTERVAL_S
    machine.used(7)
    machine.now_s += 0.02
    machine.process(8, session=8, pages=3)
    assert 8 not in machine.used(8)
    machine.now_s += 2 * MIN_INTERVAL_S
    machine.process(8, session=8, spent_s=MIN_INTERVAL_S, pages=4)
    assert machine.used(8) == {8: (50.0, 4)}


def test_lost_ticks_of_a_process_do_not_make_cpu_negative(machine: Machine) -> None:
    machine.used(7)
    machine.now_s += 10
    machine.process(7, session=7, spent_s=5.0)
    machine.used(7)
    machine.now_s += 10
    machine.process(7, session=7, spent_s=1.0)
    assert machine.used(7) == {7: (0.0, 0)}


def test_an_ended_worker_is_missing(machine: Machine) -> None:
    machine.process(7, session=7)
    machine.used(7)
    (machine.folder / "7" / "stat").unlink()
    machine.now_s += 10
    assert machine.used(7) == {}


@pytest.mark.parametrize("name", ["a b", "x) R 1 1", ")"])
def test_a_command_may_have_any_name(machine: Machine, name: str) -> None:
    machine.process(7, session=7, pages=4, name=name)
    assert machine.used(7) == {7: (None, 4)}
