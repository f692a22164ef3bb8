"""Processor time of an idle agent: thread by thread, with its fork server, and how often each wakes."""

import time
from collections.abc import Sequence
from pathlib import Path

import psutil

from benchmarks.profiles.table import table
from benchmarks.recovery.idle import idle_fleet
from benchmarks.report import etcds

_EVENT_LOOP, _STARTER = "the event loop", "the starter"


def measure(for_s: float) -> str:
    """Return the table: each thread's percent of a core and wake-ups a second; threads of one name together."""
    with etcds.etcd() as server, idle_fleet(server.endpoint.targets[0], server.folder) as families:
        before = _threads(families[0])
        time.sleep(for_s)
        after = _threads(families[0])
    ran = {name: 100 * (after[name][0] - before[name][0]) / for_s for name in before}
    woke = {name: (after[name][1] - before[name][1]) / for_s for name in before}
    return table(f"an idle agent, {for_s:g} s", {"% of a core": ran, "wake-ups a second": woke})


def _threads(family: Sequence[psutil.Process]) -> dict[str, tuple[float, int]]:
    """Return the seconds so far, and how often each thread went to sleep."""
    found: dict[str, tuple[float, int]] = {}
    for process in family:
        for task in Path(f"/proc/{process.pid}/task").iterdir():
            name = _STARTER if process is not family[0] else _name(task, process.pid)
            seconds, sleeps = found.get(name, (0.0, 0))
            found[name] = (seconds + _ran_s(task), sleeps + _sleeps(task))
    return found


def _name(task: Path, pid: int) -> str:
    """Return the name of a thread; gRPC's have names of their own, one without a name has the program's."""
    name = (task / "comm").read_text().strip()
    if task.name == str(pid):
        return _EVENT_LOOP
    return "other Python threads" if name.startswith("python") else f"gRPC: {name}"


def _ran_s(task: Path) -> float:
    return int((task / "schedstat").read_text().split()[0]) / 1e9


def _sleeps(task: Path) -> int:
    lines = (task / "status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("voluntary_ctxt_switches"))
