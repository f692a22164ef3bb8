"""Processes of members for `make bench-rendezvous`: started before the order `go`, with orders and answers.

Their module decides what a member does: `members` has the product's, `floor` the same trips to etcd with nothing around
them. Both take ENDPOINT (JSON) PREFIX FIRST COUNT, and answer orders with lines of JSON.

They are scheduled as a batch: a woken process waits until a processor is free. By default Linux preempts another member
in the middle of its work, thousands of times in a round. Members on machines of their own cannot do so. etcd is
scheduled as usual.
"""

import contextlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from elasticjob_api import constants
from elasticjob_etcd.interface import Endpoint

PROCESSES = 4
_LONGEST_S = 120.0
"""A process that has not answered for so long never will."""


class Child:
    """One process of members."""

    def __init__(
        self, module: str, endpoint: Endpoint, prefix: str, *, first: int, count: int, brief: str, policy: int
    ) -> None:
        line = [sys.executable, "-m", module, json.dumps(asdict(endpoint)), prefix, str(first), str(count)]
        environment = os.environ | {constants.ENV_SPEC: brief}
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(line, stdin=pipe, stdout=pipe, text=True, env=environment)
        os.sched_setscheduler(self.process.pid, policy, os.sched_param(0))  # before it has any other thread
        self.receive("ready")

    def order(self, word: str) -> None:
        """Send the order."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{word}\n")
        self.process.stdin.flush()

    def receive(self, key: str) -> dict[str, Any]:
        """Return its next line, which must have this key."""
        assert self.process.stdout is not None
        hangs = threading.Timer(_LONGEST_S, self.process.kill)
        hangs.start()
        line = self.process.stdout.readline()
        hangs.cancel()
        answer: dict[str, Any] = json.loads(line) if line else {}
        if key not in answer:
            raise AssertionError(f"expected {key}, received {line!r}")
        return answer

    def started_us(self, round_: int) -> int:
        """Return the time at which its last member started this round."""
        answer = self.receive("round")
        if answer["round"] != round_:
            raise AssertionError(f"round {answer['round']} is one too many")
        return int(answer["at_us"])


@contextlib.contextmanager
def crowd(
    module: str, endpoint: Endpoint, prefix: str, nodes: int, *, brief: str = "", policy: int = os.SCHED_BATCH
) -> Iterator[list[Child]]:
    """Start the members of one job, spread over the processes, not yet ordered to go; `brief` is their bootstrap.

    `policy` is the scheduler's for them.
    """
    shares = [nodes // PROCESSES + (number < nodes % PROCESSES) for number in range(PROCESSES)]
    made: list[Child] = []
    try:
        for number, share in enumerate(shares):
            made.append(
                Child(module, endpoint, prefix, first=sum(shares[:number]), count=share, brief=brief, policy=policy)
            )
        yield made
    finally:
        for child in made:
            child.process.kill()
            child.process.wait()
