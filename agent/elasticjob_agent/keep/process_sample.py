"""Whether a process works, waits or hangs, from what the kernel counts of its threads.

A keeper on a busy machine gets the processor late. It is not stopped then: it is ready to run, or runs now and then.
"""

from dataclasses import dataclass
from pathlib import Path

_WORKING_STATES = frozenset("RD")
"""Ready to run, or waiting for a disk. A process that was stopped, or waits for an event, is in neither."""


@dataclass(frozen=True, slots=True)
class ProcessSample:
    """One look at a process."""

    states: str = ""
    """The state of each thread, a letter each; empty if the process has ended, or cannot be read."""
    run_ns: int = 0
    """The processor time of all its threads so far."""


def is_working(before: ProcessSample, now: ProcessSample) -> bool:
    """Return whether a process works or would, if the machine were less busy."""
    return bool(now.states) and (now.run_ns != before.run_ns or not _WORKING_STATES.isdisjoint(now.states))


def take_sample(pid: int) -> ProcessSample:
    """Return a sample of a process."""
    states, run_ns = "", 0
    try:
        for thread in Path(f"/proc/{pid}/task").iterdir():
            states += (thread / "stat").read_text().rpartition(") ")[2][:1]
            run_ns += int((thread / "schedstat").read_text().split()[0])
    except (OSError, ValueError, IndexError):  # it has ended, or the kernel counts no such times
        return ProcessSample(states, run_ns)
    return ProcessSample(states, run_ns)
