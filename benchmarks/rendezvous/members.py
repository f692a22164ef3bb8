"""One process of `make bench-rendezvous`: many of the product's own members, with orders on stdin.

Each member has an etcd client, a connection, a lease, a watch and a link of its own, as in an agent. Only its workers
are scripted: they start and stop at once. Answers are lines of JSON on stdout, with the time of the last event.

    go            start all members              {"round": 1, "at_us": …} when all have started round 1
    fail          one worker fails               {"failed_us": …}, then {"round": 2, …} from every process
    quit          end, without leaving
"""

import asyncio
import gc
import json
import os
import resource
import secrets
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from elasticjob_agent.rendezvous.member.join import NodeIdentity
from elasticjob_agent.rendezvous.member.no_keep import NoKeep
from elasticjob_agent.rendezvous.member.rendezvous_member import RendezvousMember
from elasticjob_agent.rendezvous.protocol.interfaces import KeepPort, Outcome
from elasticjob_agent.rendezvous.protocol.member_plan import Workers
from elasticjob_agent.rendezvous.protocol.ranks import Assignment
from elasticjob_agent.tracing import Tracer
from elasticjob_api import constants
from elasticjob_api.bootstrap import decode_bootstrap
from elasticjob_api.keys import FailureKey, Keys
from elasticjob_api.records import WorkerFailure
from elasticjob_api.runtime_config import RuntimeConfig
from elasticjob_etcd import channel
from elasticjob_etcd.client import EtcdClient
from elasticjob_etcd.interface import Endpoint

LEASE_TTL_S = 6.0


def pod_name(slot: int) -> str:
    """Return a name as an operator makes it: with five letters or digits that no other has."""
    return f"pod-{slot}-{slot * 7919 % 0xFFFFF:05x}"


class QuickWorkers:
    """Implements `WorkersPort`: start and stop at once, and call `on_start`."""

    def __init__(self, on_start: Callable[[int], None]) -> None:
        self.phase = Workers.NONE
        self.failures: dict[FailureKey, WorkerFailure] = {}
        self.on_change: Callable[[], None] = lambda: None
        self._on_start = on_start
        self._place: Assignment | None = None
        self._port = 20000

    async def start(self, assignment: Assignment, config: RuntimeConfig) -> None:
        """They run."""
        if not config.stop_signal:
            raise AssertionError("workers are started by terms")
        self.phase, self.failures, self._place = Workers.RUNNING, {}, assignment
        self._on_start(assignment.round)

    def stop(self, *, grace_s: float, signal_name: str) -> None:
        """Stop the workers at once."""
        if grace_s < 0 or not signal_name:
            raise AssertionError("a stop has a signal and a grace")
        self.phase = Workers.NONE
        self.on_change()

    def renew_master_port(self) -> int:
        """Return a number without a socket."""
        self._port += 1
        return self._port

    def fail(self) -> None:
        """Let one worker fail by itself."""
        if self._place is None:
            raise AssertionError("a worker that never ran cannot fail")
        failure = WorkerFailure(incarnation=self._place.member.incarnation, rank=self._place.base_rank, exit_code=1)
        self.failures = {self._place.failure_key(0): failure}
        self.phase = Workers.FAILED
        self.on_change()


class Members:
    """`count` members with the slots from `first` on."""

    def __init__(self, endpoint: Endpoint, prefix: str, first: int, count: int) -> None:
        self._endpoint = endpoint
        self._keys = Keys(prefix)
        self._first, self._count = first, count
        bootstrap = os.environ.get(constants.ENV_SPEC)
        self._brief = decode_bootstrap(bootstrap) if bootstrap else None
        self._workers: list[QuickWorkers] = []
        self._started: dict[int, int] = {}
        self._tasks: list[asyncio.Task[Outcome]] = []

    def go(self) -> None:
        """Start them all."""
        for slot in range(self._first, self._first + self._count):
            workers = QuickWorkers(self._on_start)
            self._workers.append(workers)
            self._tasks.append(asyncio.create_task(self._member(slot, workers).run()))
            self._tasks[-1].add_done_callback(say_ended)

    def _member(self, slot: int, workers: QuickWorkers) -> RendezvousMember:
        identity = NodeIdentity(
            keys=self._keys,
            pod=pod_name(slot),
            pod_uid=f"uid-{slot}",
            host=f"host-{slot}",
            address="127.0.0.1",
            nproc=8,
            slot=slot,
            bootstrap=self._brief,
        )
        return RendezvousMember(
            etcd=EtcdClient(self._endpoint),
            identity=identity,
            workers=workers,
            clock=time.monotonic,
            random_hex=lambda: secrets.token_hex(4),
            trace=Tracer(None, ""),
            keep=self._keep(slot),
        )

    def _keep(self, slot: int) -> KeepPort:  # noqa: ARG002  # for members that keep steps
        return NoKeep()

    def fail(self) -> None:
        """Let one worker of the first member fail."""
        say(failed_us=now_us())
        self._workers[0].fail()

    def _on_start(self, round_: int) -> None:
        self._started[round_] = self._started.get(round_, 0) + 1
        if self._started[round_] == self._count:
            say(round=round_, at_us=now_us())

    def orders(self) -> dict[str, Callable[[], None]]:
        """Return the orders of the parent."""
        return {"go": self.go, "fail": self.fail}

    def faults(self) -> list[str]:
        """Return members that have ended; none should."""
        return [repr(task) for task in self._tasks if task.done()]


class Serves(Protocol):
    """Members of any kind."""

    def orders(self) -> dict[str, Callable[[], None]]:
        """Return their orders."""

    def faults(self) -> list[str]:
        """Return those that have ended; none should."""


def say(**what: object) -> None:
    """Write one line to the parent."""
    print(json.dumps(what), flush=True)


def say_ended(task: "asyncio.Task[Any]") -> None:
    """Report a member that ended by itself: the parent waits for another line, and stops."""
    say(ended=repr(task))


def now_us() -> int:
    """Return the clock that all processes share."""
    return time.time_ns() // 1000


async def serve(members: Serves) -> None:
    """Carry out the orders of stdin until `quit`."""
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    say(ready=True)
    while (order := (await reader.readline()).decode().strip()) not in {"quit", ""}:
        members.orders()[order]()
    if faults := members.faults():
        raise AssertionError(f"{len(faults)} members ended: {faults[0]}")


def prepare(arguments: Sequence[str]) -> tuple[Endpoint, str, int, int]:
    """Parse ENDPOINT PREFIX FIRST COUNT, and prepare this process for many members."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    # As many processes have it: a connection for each member. Channels of one process would share one.
    channel.OPTIONS = (*channel.OPTIONS, ("grpc.use_local_subchannel_pool", 1))
    endpoint, prefix, first, count = arguments
    # As in processes of their own: imported modules are no garbage of a member, and no collection scans them.
    gc.freeze()
    gc.set_threshold(gc.get_threshold()[0] * max(1, int(count)), *gc.get_threshold()[1:])
    fields = json.loads(endpoint)
    return Endpoint(**{**fields, "targets": tuple(fields["targets"])}), prefix, int(first), int(count)


if __name__ == "__main__":
    asyncio.run(serve(Members(*prepare(sys.argv[1:]))))
