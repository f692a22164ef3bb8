"""The faults of `--inject`: each waits for its time and its target, is injected once, and is reported.

Only processes of this run are signalled. A pid is signalled through a handle (pidfd), and only while its process
is a descendant of this one.
"""

import asyncio
import os
import signal
from collections.abc import Callable, Sequence
from contextlib import suppress

import psutil

from elasticjob_cli.local.fault_spec import AtShare, Fault, FaultKind, When
from elasticjob_cli.local.run_view import RunView
from elasticjob_operator.cluster.in_memory import InMemoryCluster
from elasticjob_operator.model import objects
from elasticjob_operator.model.cluster_interface import Object, Resource


class FaultInjector:
    """The faults of one run; `run` ends when all were injected, and `left` has the others."""

    def __init__(
        self,
        faults: Sequence[Fault],
        *,
        view: RunView,
        cluster: InMemoryCluster,
        agent_pids: Callable[[str], Sequence[int]],
        report: Callable[[str], None],
    ) -> None:
        """Keep the faults; `agent_pids` takes the uid of a pod, `report` takes one line."""
        self.left = list(faults)
        self._view = view
        self._cluster = cluster
        self._agent_pids = agent_pids
        self._report = report

    async def run(self) -> None:
        """Inject each fault at its time; cancelled at the end of the run."""
        async with asyncio.TaskGroup() as group:
            for fault in list(self.left):
                group.create_task(self._inject(fault))

    async def _inject(self, fault: Fault) -> None:
        await self._reach(fault.when)
        while not await self._try(fault):
            # The target is missing for now, for example between two rounds: any change may bring it back.
            await self._view.next_change()
        self.left.remove(fault)

    async def _reach(self, when: When) -> None:
        view = self._view
        if isinstance(when, AtShare):
            await view.until(lambda: view.running_since_s is not None and view.percentage >= when.percent)
            return
        await view.until(lambda: view.running_since_s is not None)
        since_s = view.running_since_s or 0.0
        await asyncio.sleep(since_s + when.seconds - asyncio.get_running_loop().time())

    async def _try(self, fault: Fault) -> bool:
        """Return whether the fault was injected."""
        if fault.kind is FaultKind.SCALE:
            self._report(f"inject {fault}: scaling to {fault.target} nodes")
            metadata = objects.metadata(self._view.job)
            job = (metadata["namespace"], metadata["name"])
            await self._cluster.patch_spec(Resource.JOB, *job, {"replicas": fault.target})
            return True
        if fault.kind is FaultKind.KILL_WORKER:
            return self._kill_worker(fault)
        pod = self._view.pod_in_slot(fault.target)
        return pod is not None and await self._signal_pod(fault, pod)

    def _kill_worker(self, fault: Fault) -> bool:
        worker = self._view.running_worker(fault.target)
        if worker is None or not signal_descendant(worker.report.pid, signal.SIGKILL):
            return False
        self._report(
            f"inject {fault}: sent SIGKILL to rank {fault.target}, pid {worker.report.pid}, in pod {worker.pod}"
        )
        return True

    async def _signal_pod(self, fault: Fault, pod: Object) -> bool:
        name = objects.name_of(pod)
        if fault.kind is FaultKind.DELETE_POD:
            self._report(f"inject {fault}: deleting pod {name}")
            await self._cluster.delete(Resource.POD, objects.namespace_of(pod), name, uid=objects.uid_of(pod))
            return True
        sig = signal.SIGKILL if fault.kind is FaultKind.KILL_AGENT else signal.SIGTERM
        signalled = [pid for pid in self._agent_pids(objects.uid_of(pod)) if signal_descendant(pid, sig)]
        if signalled:
            self._report(f"inject {fault}: sent {sig.name} to the agent of pod {name}, pid {signalled[0]}")
        return bool(signalled)


def signal_descendant(pid: int, sig: signal.Signals) -> bool:
    """Send a signal to a living descendant of this process; return whether it was sent."""
    with suppress(ProcessLookupError, psutil.NoSuchProcess):
        handle = os.pidfd_open(pid)
        try:
            # The handle comes before the check: a process that gets the pid later cannot be signalled.
            if os.getpid() not in [parent.pid for parent in psutil.Process(pid).parents()]:
                return False
            signal.pidfd_send_signal(handle, sig)
            return True
        finally:
            os.close(handle)
    return False
