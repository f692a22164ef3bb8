"""The last known state of one run: the job, its pods and its workers; and waiting for a change of it.

Only the followers (`follow`) write into it, each from one watch; whoever reads it between two awaits sees one state.
What is gone stays here as it was last: the final table is made of it.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from elasticjob_api import constants
from elasticjob_api.records import NodeReport, WorkerReport, WorkerState
from elasticjob_operator.model import objects
from elasticjob_operator.model.cluster_interface import Object

_WHOLE = 100


@dataclass(frozen=True, slots=True)
class Worker:
    """One worker as its agent last reported it."""

    pod: str
    round: int
    restarts: int
    report: WorkerReport


@dataclass(slots=True)
class RunView:
    """See the module."""

    job: Object = field(default_factory=dict)
    pods: dict[str, Object] = field(default_factory=dict)
    """By name; also those that are gone."""
    deleted: set[str] = field(default_factory=set)
    """Names of pods whose object is gone."""
    reports: dict[str, NodeReport] = field(default_factory=dict)
    """By pod; also of agents that are gone."""
    running_since_s: float | None = None
    """When all workers of a round first ran, on the event loop's clock."""
    _waiters: set["asyncio.Future[None]"] = field(default_factory=set)

    @property
    def status(self) -> Mapping[str, Any]:
        """The job's status as last written."""
        status: Mapping[str, Any] = self.job.get("status") or {}
        return status

    @property
    def finished(self) -> bool:
        """The job has come to its end."""
        return self.status.get("phase") in {constants.Phase.SUCCEEDED, constants.Phase.FAILED}

    @property
    def percentage(self) -> int:
        """How much of its work the training has told to be done.

        From the reports, which the status follows: there it is written less often.
        """
        told = [report.progress for report in self.reports.values() if report.progress]
        shares = [_WHOLE * (p.step or 0) // p.total for p in told if p.total]
        return max(shares, default=0)

    def live_pods(self) -> list[Object]:
        """Pods of which something may still run."""
        present = (pod for name, pod in self.pods.items() if name not in self.deleted)
        return [pod for pod in present if objects.pod_phase(pod) not in objects.ENDED_PHASES]

    def training_pods(self) -> list[Object]:
        """Pods whose trainer has not ended; other containers beside it may never end."""
        return [pod for pod in self.live_pods() if not self._trainer_ended(pod)]

    def _trainer_ended(self, pod: Object) -> bool:
        name = self.job["spec"].get("trainerContainer") or pod["spec"]["containers"][0]["name"]
        statuses = (pod.get("status") or {}).get("containerStatuses") or []
        return any(status["name"] == name and "terminated" in status["state"] for status in statuses)

    def pod_in_slot(self, slot: int) -> Object | None:
        """The running pod of a slot; of several the youngest."""
        label = {constants.LABEL_SLOT: str(slot)}
        running = [p for p in self.live_pods() if objects.matches(p, label) and objects.pod_phase(p) == "Running"]
        return next((pod for pod in reversed(running) if not objects.is_terminating(pod)), None)

    def workers(self) -> list[Worker]:
        """All workers of the newest round that anyone reported."""
        newest = max((report.round for report in self.reports.values()), default=0)
        return [
            Worker(pod, report.round, report.restart_count, worker)
            for pod, report in self.reports.items()
            if report.round == newest
            for worker in report.workers
        ]

    def running_worker(self, rank: int) -> Worker | None:
        """The worker that has this rank now and runs."""
        alive = (w for w in self.workers() if w.pod not in self.deleted and w.report.state is WorkerState.HEALTHY)
        return next((worker for worker in alive if worker.report.rank == rank), None)

    def changed(self) -> None:
        """Something was seen: whoever waits looks again."""
        waiters, self._waiters = self._waiters, set()
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    async def next_change(self) -> None:
        """Return when anything more was seen."""
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.add(waiter)
        await waiter

    async def until(self, condition: Callable[[], bool], *, at_most_s: float | None = None) -> bool:
        """Return True as soon as it holds, or False after `at_most_s`."""
        try:
            async with asyncio.timeout(at_most_s):
                while not condition():
                    await self.next_change()
        except TimeoutError:
            return condition()
        return True
