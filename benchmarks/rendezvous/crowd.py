"""Processes of members for `make bench-rendezvous`: started before the word `go`, told what to do, heard.

What a member does is its module's: `rendezvous_members` is the product's, `rendezvous_floor` the same trips to etcd
with nothing around them. Both take ENDPOINT (JSON) PREFIX FIRST COUNT, and answer orders with lines of JSON.

They are scheduled as a batch: whoever is woken waits until a processor is free. By default Linux takes it from another
member that is in the middle of its work, thousands of times in a round; on machines of their own none could do so.
etcd is scheduled as usual.
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
"""Who says nothing for so long never will."""


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
        self.hear("ready")

    def order(self, word: str) -> None:
        """Tell it."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{word}\n")
        self.process.stdin.flush()

    def hear(self, key: str) -> dict[str, Any]:
        """Its next line, which must have this key."""
        assert self.process.stdout is not None
        hangs = threading.Timer(_LONGEST_S, self.process.kill)
        hangs.start()
        line = self.process.stdout.readline()
        hangs.cancel()
        said: dict[str, Any] = json.loads(line) if line else {}
        if key not in said:
            raise AssertionError(f"expected {key}, heard {line!r}")
        return said

    def started_us(self, round_: int) -> int:
        """When its last member has started this round."""
        said = self.hear("round")
        if said["round"] != round_:
            raise AssertionError(f"round {said['round']} is one too many")
        return int(said["at_us"])


@contextlib.contextmanager
def crowd(
    module: str, endpoint: Endpoint, prefix: str, nodes: int, *, brief: str = "", policy: int = os.SCHED_BATCH
) -> Iterator[list[Child]]:
    """The members of one job, spread over the processes, not yet told to go; with what their pods would say.

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
