"""Doing what `--inject` asks for: each fault waits for its moment and its victim, strikes once, and says so.

It never signals a process that is not of this run: a pid is struck only through a handle (pidfd) of a process that
is still a descendant of this one.
"""

import asyncio
import os
import signal
from collections.abc import Callable, Sequence
from contextlib import suppress

import psutil

from elasticjob_cli.local.fault_spec import AtShare, Fault, Kind, When
from elasticjob_cli.local.run_view import RunView
from elasticjob_operator.cluster.in_memory import InMemoryCluster
from elasticjob_operator.model import objects
from elasticjob_operator.model.cluster_interface import Object, Resource


class FaultInjector:
    """The faults of one run; `run` ends when all have struck, `left` names those that have not."""

    def __init__(
        self,
        faults: Sequence[Fault],
        *,
        view: RunView,
        cluster: InMemoryCluster,
        agent_pids: Callable[[str], Sequence[int]],
        report: Callable[[str], None],
    ) -> None:
        """Nothing is struck yet; `agent_pids` takes a pod's uid, `report` one line."""
        self.left = list(faults)
        self._view = view
        self._cluster = cluster
        self._agent_pids = agent_pids
        self._report = report

    async def run(self) -> None:
        """Strike each in its moment; cancelled at the end of the run."""
        async with asyncio.TaskGroup() as group:
            for fault in list(self.left):
                group.create_task(self._inject(fault))

    async def _inject(self, fault: Fault) -> None:
        await self._reach(fault.when)
        while not await self._try(fault):
            # The victim is just not there, as between two rounds: the next change of anything may bring it.
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
        """True if it struck."""
        if fault.kind is Kind.SCALE:
            self._report(f"inject {fault}: scaling to {fault.target} nodes")
            metadata = objects.metadata(self._view.job)
            where = (metadata["namespace"], metadata["name"])
            await self._cluster.patch_spec(Resource.JOB, *where, {"replicas": fault.target})
            return True
        if fault.kind is Kind.KILL_WORKER:
            return self._kill_worker(fault)
        pod = self._view.pod_in_slot(fault.target)
        return pod is not None and await self._signal_pod(fault, pod)

    def _kill_worker(self, fault: Fault) -> bool:
        worker = self._view.running_worker(fault.target)
        if worker is None or not signal_descendant(worker.report.pid, signal.SIGKILL):
            return False
        self._report(f"inject {fault}: SIGKILL to rank {fault.target}, pid {worker.report.pid} in pod {worker.pod}")
        return True

    async def _signal_pod(self, fault: Fault, pod: Object) -> bool:
        name = objects.name_of(pod)
        if fault.kind is Kind.DELETE_POD:
            self._report(f"inject {fault}: deleting pod {name}")
            await self._cluster.delete(Resource.POD, objects.namespace_of(pod), name, uid=objects.uid_of(pod))
            return True
        sig = signal.SIGKILL if fault.kind is Kind.KILL_AGENT else signal.SIGTERM
        struck = [pid for pid in self._agent_pids(objects.uid_of(pod)) if signal_descendant(pid, sig)]
        if struck:
            self._report(f"inject {fault}: {sig.name} to the agent of pod {name}, pid {struck[0]}")
        return bool(struck)


def signal_descendant(pid: int, sig: signal.Signals) -> bool:
    """Signal this process if it lives and is ours; True if it was."""
    with suppress(ProcessLookupError, psutil.NoSuchProcess):
        handle = os.pidfd_open(pid)
        try:
            # Handle first, lineage second: the signal cannot reach one that got the pid in between.
            if os.getpid() not in [parent.pid for parent in psutil.Process(pid).parents()]:
                return False
            signal.pidfd_send_signal(handle, sig)
            return True
        finally:
            os.close(handle)
    return False
