"""docs/latencies.md: the measurements of a run, as a page that only a run writes."""

import datetime as dt
import os
import platform
from collections.abc import Iterable
from typing import NamedTuple

DEFAULT_INSTALL = "default install"
PINNED = "one etcd member, pinned"
TRAINING = "training with torch"

_HEAD = """# Latencies on a real kind cluster

Written by one run of all end-to-end tests, which is a part of `make nightly`; a change of this page is a change of what
was measured:

    .venv/bin/pytest -m '' --latencies docs/latencies.md e2e

A control plane and three workers of kind, all on one machine ({machine}); a load
far above the number of cores makes every line longer. The goals on a quiet one: a killed worker 0.5 s, the survivors of
a deleted pod 1.5 s, those of a node that stops 10 s. Another operator leads 5 s after the leader was killed, 15 s after
its node was.

Seconds are from the fault, or the command, to the moment when the last worker of the round that followed was started,
by the log of its agent. "The survivors" go on without the node that is gone; "replaced" is with the pod in its place,
for a lost node after lostPodTimeoutSeconds (10 s in these tests).
"""
_ABOUT = {
    DEFAULT_INSTALL: """
## The default install

The chart's defaults on three workers: TLS, two operators, three members of etcd, beside the pods of the jobs. A node
that is killed takes a member of etcd and a pod of the job with it, and mostly an operator.
""",
    PINNED: """
## The operators and one member of etcd on the control plane

Nothing of the system is on the two workers that the tests break.
""",
    TRAINING: """
## The next training step

DistributedDataParallel over gloo, in two pods of one worker. Each node has the machine's torch as a mounted folder.
Seconds are from the fault to the first new step of the last rank, by the output of the workers. Jobs with
`warmStart: Auto` and with `Off` take turns.
""",
}
_TABLE = """
| what | seconds |
| --- | ---: |
"""


class Measurement(NamedTuple):
    """Seconds that something took."""

    install: str
    """The installation, a key of `_ABOUT`."""
    what: str
    seconds: float


def page(measured: Iterable[Measurement]) -> str:
    """Return the page as Markdown."""
    when = dt.datetime.now(tz=dt.UTC).date().isoformat()
    machine = f"{os.cpu_count()} cores, load {os.getloadavg()[2]:.0f}, {platform.system()} {platform.machine()}, {when}"
    all_ = tuple(measured)
    tables = "".join(_table(install, [one for one in all_ if one.install == install]) for install in _ABOUT)
    return _HEAD.format(machine=machine) + tables


def _table(install: str, measured: list[Measurement]) -> str:
    rows = "".join(f"| {one.what} | {one.seconds:.2f} |\n" for one in measured)
    return _ABOUT[install] + _TABLE + rows if rows else ""
