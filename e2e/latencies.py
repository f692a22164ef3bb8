"""docs/latencies.md: what a run measured, as a page. Written by the run and by nobody else."""

import datetime as dt
import os
import platform
from collections.abc import Iterable

_HEAD = """# Latencies on a real kind cluster

Written by one run of all end-to-end tests, which is a part of `make nightly`; a change of this page is a change of what
was measured:

    .venv/bin/pytest -m '' --latencies docs/latencies.md e2e

A control plane and two workers of kind, all on one machine ({machine}); a load
far above the number of cores makes every line longer. The goals on a quiet one: a killed worker 0.5 s, the survivors of
a deleted pod 1.5 s, those of a node that stops 10 s.

Seconds are from the fault, or the command, to the moment when the last worker of the round that followed was started,
by the log of its agent. "The survivors" go on without the node that is gone; "replaced" is with the pod in its place,
for a lost node after lostPodTimeoutSeconds (10 s in these tests).

| what | seconds |
| --- | ---: |
"""


def page(measured: Iterable[tuple[str, float]]) -> str:
    """The page as Markdown."""
    when = dt.datetime.now(tz=dt.UTC).date().isoformat()
    machine = f"{os.cpu_count()} cores, load {os.getloadavg()[2]:.0f}, {platform.system()} {platform.machine()}, {when}"
    return _HEAD.format(machine=machine) + "".join(f"| {what} | {seconds:.2f} |\n" for what, seconds in measured)
