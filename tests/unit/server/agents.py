"""An agent with scripted workers, a rendezvous with scripted rounds, and a recorder of events and metrics."""

import itertools
import logging
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from elasticjob_agent import events, metrics
from elasticjob_agent.events import Event
from elasticjob_agent.metrics import MetricData, MetricHandler
from elasticjob_agent.multiprocessing import ProcessFailure
from elasticjob_agent.rendezvous.interface import RendezvousHandler, RendezvousInfo, RendezvousStoreInfo
from elasticjob_agent.rendezvous.store import InMemoryStore
from elasticjob_agent.server import RunResult, SimpleElasticAgent, WorkerGroup, WorkerSpec, WorkerState

HEALTHY, FAILED, UNHEALTHY = WorkerState.HEALTHY, WorkerState.FAILED, WorkerState.UNHEALTHY
SUCCEEDED, STOPPED, UNKNOWN, INIT = (
    WorkerState.SUCCEEDED,
    WorkerState.STOPPED,
    WorkerState.UNKNOWN,
    WorkerState.INIT,
)


class Rounds(RendezvousHandler):
    """One node alone: each round is ready at once, unless it has an error or waits for a gate."""

    def __init__(self, *, waiting: Iterable[int] = (), as_triple: bool = False) -> None:
        self.rounds = 0
        self.waiting = iter(waiting)
        self.asked = 0
        self.as_triple = as_triple
        self.errors: dict[int, Exception] = {}
        self.gates: dict[int, threading.Event] = {}
        self.on_round: Callable[[int], None] = lambda _: None
        self.was_closed = self.was_shut_down = False

    def get_backend(self) -> str:
        return "rounds"

    def get_run_id(self) -> str:
        return "run"

    def next_rendezvous(self) -> Any:
        self.rounds += 1
        number = self.rounds
        self.on_round(number)
        if number in self.gates:
            self.gates[number].wait(60)
        if number in self.errors:
            raise self.errors[number]
        store = InMemoryStore()
        return (store, 0, 1) if self.as_triple else RendezvousInfo(store, 0, 1, RendezvousStoreInfo("host", 29500))

    def is_closed(self) -> bool:
        return self.was_closed

    def set_closed(self) -> None:
        self.was_closed = True

    def num_nodes_waiting(self) -> int:
        self.asked += 1
        return next(self.waiting, 0)

    def shutdown(self) -> bool:
        self.was_shut_down = True
        return True


def failure(local_rank: int = 0, exitcode: int = 1) -> ProcessFailure:
    """Return the failure of a worker."""
    return ProcessFailure(local_rank=local_rank, pid=100 + local_rank, exitcode=exitcode, error_file="<N/A>")


def result(state: WorkerState, *ranks: int) -> RunResult:
    """Return the result of one check of the workers; `ranks` are all of them, or the failed ones of a failure."""
    if state is SUCCEEDED:
        return RunResult(state, return_values={rank: f"value {rank}" for rank in ranks})
    return RunResult(state, failures={rank: failure(rank) for rank in ranks})


class ScriptedAgent(SimpleElasticAgent):
    """Each check of its workers returns the next entry of the script; after the end, the last entry."""

    def __init__(
        self, spec: WorkerSpec, script: Iterable[WorkerState | RunResult] = (SUCCEEDED,), **limits: Any
    ) -> None:
        super().__init__(spec, **limits)
        self._script = iter(script)
        self._last: WorkerState | RunResult = HEALTHY
        self._ids = itertools.count(1)
        self.did: list[str] = []
        self.checks = 0
        self.shutdowns: list[tuple[Any, ...]] = []
        self.on_step: Callable[[str], None] = lambda _: None

    def _note(self, step: str) -> None:
        self.did.append(step)
        self.on_step(step)

    def _start_workers(self, worker_group: WorkerGroup) -> dict[int, Any]:
        self._note("start")
        return {worker.local_rank: f"id {next(self._ids)}" for worker in worker_group.workers}

    def _stop_workers(self, worker_group: WorkerGroup, is_restart: bool = False) -> None:  # noqa: ARG002, FBT001, FBT002 - as old ones
        self._note("stop")

    def _monitor_workers(self, worker_group: WorkerGroup) -> RunResult:
        self.checks += 1
        self._last = next(self._script, self._last)
        self._note("check")
        if isinstance(self._last, RunResult):
            return self._last
        ranks = [worker.global_rank for worker in worker_group.workers] if self._last is SUCCEEDED else []
        return result(self._last, *ranks)

    def _shutdown(self, death_sig: signal.Signals = signal.SIGTERM, timeout: float = 30) -> None:
        self.shutdowns.append((death_sig, timeout))
        self._note("shutdown")


def spec(handler: RendezvousHandler | None = None, **more: Any) -> WorkerSpec:
    """Return a spec of two workers, which are checked each millisecond."""
    fields = {"role": "trainer", "local_world_size": 2, "entrypoint": "train.sh", "monitor_interval": 0.001, **more}
    return WorkerSpec(rdzv_handler=handler or Rounds(), **fields)


class RecordedEvents(logging.Handler, MetricHandler):
    """Recorder of the events and metrics of one test."""

    def __init__(self) -> None:
        logging.Handler.__init__(self)
        self.events: list[Event] = []
        self.metrics: list[MetricData] = []

    def emit(self, record: Any) -> None:
        """Record either."""
        if isinstance(record, MetricData):
            self.metrics.append(record)
        else:
            self.events.append(Event.deserialize(record.getMessage()))

    @property
    def values(self) -> dict[str, float]:
        """Return the last value of each metric."""
        return {data.name: data.value for data in self.metrics}

    def states(self, source: str) -> list[str]:
        """Return the states in events of workers, or of the agent."""
        return [str(event.metadata["state"]) for event in self.events if event.source.value == source]


def recording(name: str) -> Iterator[RecordedEvents]:
    """Record events sent to `name` and all metrics, until the test ends."""
    recorded = RecordedEvents()
    events.register(name, recorded)
    before = metrics.api._default[0]
    metrics.configure(recorded)
    yield recorded
    metrics.configure(before)
