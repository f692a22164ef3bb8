"""The last known state of one run: the job, its pods and its workers. Callers can wait for a change of it.

Only `followers` writes to it, each task from one watch. Code between two awaits reads one consistent state. Deleted
pods and ended workers keep their last state, for the summary.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from elasticjob_api import constants
from elasticjob_api.records import NodeReport, NodeSamples, WorkerReport, WorkerState
from elasticjob_api.rendezvous_state import Member
from elasticjob_api.status import LastFailure
from elasticjob_cli.views.last_failure import read_last_failure
from elasticjob_operator.model import objects
from elasticjob_operator.model.cluster_interface import Object

_WHOLE = 100


@dataclass(frozen=True, slots=True)
class ReportedWorker:
    """A worker as its agent last reported it."""

    pod: str
    round: int
    restarts: int
    report: WorkerReport


@dataclass(slots=True)
class RunView:
    """The last known state of one run."""

    job: Object = field(default_factory=dict)
    pods: dict[str, Object] = field(default_factory=dict)
    """Pods by name, including deleted ones."""
    deleted: set[str] = field(default_factory=set)
    """Names of deleted pods."""
    reports: dict[str, NodeReport] = field(default_factory=dict)
    """Reports by pod, including those of agents that have ended."""
    samples: dict[Member, NodeSamples] = field(default_factory=dict)
    """Samples by session of an agent, including ended ones."""
    running_since_s: float | None = None
    """The time when all workers of a round were first running, on the event loop's clock."""
    _waiters: set["asyncio.Future[None]"] = field(default_factory=set)

    @property
    def status(self) -> Mapping[str, Any]:
        """The last status of the job."""
        status: Mapping[str, Any] = self.job.get("status") or {}
        return status

    @property
    def last_failure(self) -> LastFailure | None:
        """The last failure in the status."""
        return read_last_failure(self.status)

    @property
    def finished(self) -> bool:
        """Whether the job has ended."""
        return self.status.get("phase") in {constants.Phase.SUCCEEDED, constants.Phase.FAILED}

    @property
    def percentage(self) -> int:
        """The share of the work that the training has reported as done, in percent."""
        # The samples are newer than the status, which is written less often.
        progress = [samples.progress for samples in self.samples.values() if samples.progress]
        shares = [_WHOLE * (p.step or 0) // p.total for p in progress if p.total]
        return max(shares, default=0)

    def live_pods(self) -> list[Object]:
        """Return the pods that may still have a running process."""
        present = (pod for name, pod in self.pods.items() if name not in self.deleted)
        return [pod for pod in present if objects.pod_phase(pod) not in objects.ENDED_PHASES]

    def training_pods(self) -> list[Object]:
        """Return the pods whose trainer has not ended; their other containers may never end."""
        return [pod for pod in self.live_pods() if not self._trainer_ended(pod)]

    def _trainer_ended(self, pod: Object) -> bool:
        name = self.job["spec"].get("trainerContainer") or pod["spec"]["containers"][0]["name"]
        statuses = (pod.get("status") or {}).get("containerStatuses") or []
        return any(status["name"] == name and "terminated" in status["state"] for status in statuses)

    def pod_in_slot(self, slot: int) -> Object | None:
        """Return the running pod of a slot; the newest of several."""
        label = {constants.LABEL_SLOT: str(slot)}
        running = [p for p in self.live_pods() if objects.matches(p, label) and objects.pod_phase(p) == "Running"]
        return next((pod for pod in reversed(running) if not objects.is_terminating(pod)), None)

    def workers(self) -> list[ReportedWorker]:
        """Return all reported workers of the newest round."""
        newest = max((report.round for report in self.reports.values()), default=0)
        return [
            ReportedWorker(pod, report.round, report.restart_count, worker)
            for pod, report in self.reports.items()
            if report.round == newest
            for worker in report.workers
        ]

    def running_worker(self, rank: int) -> ReportedWorker | None:
        """Return the running worker that has this rank now."""
        alive = (w for w in self.workers() if w.pod not in self.deleted and w.report.state is WorkerState.HEALTHY)
        return next((worker for worker in alive if worker.report.rank == rank), None)

    def changed(self) -> None:
        """Wake the tasks that wait for a change."""
        waiters, self._waiters = self._waiters, set()
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    async def next_change(self) -> None:
        """Wait for the next change."""
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.add(waiter)
        await waiter

    async def until(self, condition: Callable[[], bool], *, at_most_s: float | None = None) -> bool:
        """Wait until the condition is true; return False if it is not after `at_most_s`."""
        try:
            async with asyncio.timeout(at_most_s):
                while not condition():
                    await self.next_change()
        except TimeoutError:
            return condition()
        return True
