"""The agent of a node: the loop of `SimpleElasticAgent` over the workers of this node and the rendezvous of its job.

It runs in a thread of its own. Its workers (`NodeWorkers`) and its rendezvous run in the event loop of another thread.
The loop never waits for the agent, and the agent waits only for its mailbox and for calls into the loop. Signals reach
it through `stop`.
"""

import asyncio
import concurrent.futures
import contextlib
import math
import signal
from collections.abc import Coroutine, Iterator, Sequence
from typing import Any, TypeVar

from elasticjob_agent.multiprocessing.errors import ProcessFailure
from elasticjob_agent.rendezvous.handler import EtcdRendezvousHandler
from elasticjob_agent.rendezvous.job_rendezvous import LocalFailure
from elasticjob_agent.rendezvous.protocol.member_plan import Workers
from elasticjob_agent.rendezvous.protocol.transactions import FailureRecord
from elasticjob_agent.server import RunResult, SimpleElasticAgent, WorkerGroup, WorkerSpec, WorkerState
from elasticjob_agent.server._signals import SignalHandlers
from elasticjob_agent.workers.node_workers import NodeWorkers

T = TypeVar("T")

_STATES = {Workers.SUCCEEDED: WorkerState.SUCCEEDED, Workers.FAILED: WorkerState.FAILED}
_ENDED = {Workers.NONE, Workers.SUCCEEDED}
POLL_S = 3600.0
"""Seconds between polls. Each change wakes the agent, so this only limits the time for which a wake-up can be lost."""


class BackgroundLoop:
    """The event loop of the thread that creates this object, for calls from other threads."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()

    def submit(self, coroutine: Coroutine[Any, Any, T]) -> "concurrent.futures.Future[T]":
        """Run a coroutine in that loop, and return a future of its result."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop)


class _NoHandlers(SignalHandlers):
    """Installs no signal handlers, because the event loop handles the signals."""

    @contextlib.contextmanager
    def installed(self) -> Iterator[None]:
        """Do nothing."""
        yield


class NodeAgent(SimpleElasticAgent):
    """The agent of one node; the event loop starts, watches and stops its workers."""

    def __init__(
        self, spec: WorkerSpec, *, workers: NodeWorkers, handler: EtcdRendezvousHandler, loop: BackgroundLoop, host: str
    ) -> None:
        super().__init__(spec, exit_barrier_timeout=math.inf)
        self._workers = workers
        self._handler = handler
        self._loop = loop
        self._host = host
        self._reported_failures = 0
        self._handlers = _NoHandlers(self.stop)
        workers.on_change = self._inbox_changed

    def _inbox_changed(self) -> None:
        self._mailbox.wake()

    def _hostname(self) -> str:
        return self._host

    def _start_workers(self, worker_group: WorkerGroup) -> dict[int, Any]:
        assignment, config = self._handler.assignment, self._handler.runtime_config
        if assignment is None or config is None:
            raise AssertionError("workers can be started in a round only")
        worker_group.spec.max_restarts = config.max_restarts
        self._reported_failures = 0
        self._loop.submit(self._workers.start(assignment, config)).result()
        return {worker.local_rank: f"{assignment.round}/{worker.global_rank}" for worker in worker_group.workers}

    def _monitor_workers(self, worker_group: WorkerGroup) -> RunResult:
        state = _STATES.get(self._workers.phase, WorkerState.HEALTHY)
        if state is WorkerState.SUCCEEDED:
            return RunResult(state, return_values={worker.global_rank: None for worker in worker_group.workers})
        if state is WorkerState.FAILED:
            return RunResult(state, failures={f.failure.rank: _process_failure(f) for f in self._workers.failures})
        return RunResult(state)

    def _failures_for_job(self, result: RunResult) -> Sequence[LocalFailure]:  # noqa: ARG002 - the workers have the records
        """Return the failures that were not reported yet, with their complete records."""
        unreported = self._workers.failures[self._reported_failures :]
        self._reported_failures += len(unreported)
        return [
            LocalFailure(local_rank=f.local_rank, exit_code=f.failure.exit_code, record=f.failure) for f in unreported
        ]

    def _stop_workers(self, worker_group: WorkerGroup) -> None:
        """Stop the workers with the grace that the rendezvous orders, else the short one; report failures meanwhile."""
        self._end_all()
        if late := self._failures_for_job(RunResult(worker_group.state)):
            self._handler.workers_failed(late)

    def _shutdown(self, death_sig: signal.Signals = signal.SIGTERM, timeout: float = 30) -> None:  # noqa: ARG002 - the job sets both
        self._end_all()

    def _end_all(self) -> None:
        if self._workers.phase in _ENDED:
            return
        order, config = self._handler.stop_order(), self._handler.runtime_config
        if order is not None:
            grace_s, name = order.grace_s, order.signal_name
        elif config is not None:
            grace_s, name = config.failure_stop_grace_s, config.stop_signal
        else:
            raise AssertionError("workers can run in a round only")
        self._loop.submit(self._start_stopping(grace_s, name)).result()
        while self._workers.phase not in _ENDED:
            self._mailbox.wait(None)

    async def _start_stopping(self, grace_s: float, name: str) -> None:
        if self._mailbox.is_urgent:
            self._workers.kill()
        else:
            self._workers.stop(grace_s=grace_s, signal_name=name)

    def _on_second_signal(self) -> None:
        self._loop.submit(self._kill())

    async def _kill(self) -> None:
        self._workers.kill()


def _process_failure(failed: FailureRecord) -> ProcessFailure:
    """Return the failure as the type of the public API, without an error file: it has been read already."""
    record = failed.failure
    failure = ProcessFailure(local_rank=failed.local_rank, pid=record.pid, exitcode=record.exit_code, error_file="")
    failure.message = record.message or failure.message
    return failure
