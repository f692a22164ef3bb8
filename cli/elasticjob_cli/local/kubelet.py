"""A kubelet whose containers are processes of this machine; each pod gets its own node name, `local-<n>`.

It watches pods and writes their status, through four calls (`PodApi`) that `cluster.in_memory.InMemoryCluster`
has and a real API server can provide. It decides nothing about jobs. It runs pods without a node and ignores pods of
another node. It stops a deleted pod within its grace period, and confirms the removal only when no process of it is
left.
"""

import asyncio
import math
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from elasticjob_agent.supervisor import Supervisor
from elasticjob_api.errors import FieldError
from elasticjob_cli.local.containers import Host, plan_pod
from elasticjob_cli.local.environment import PodFacts
from elasticjob_cli.local.pod_runner import PodRunner
from elasticjob_cli.local.pod_status import LocalPodState, pod_status
from elasticjob_cli.local.supported import pod_faults
from elasticjob_operator.model import objects
from elasticjob_operator.model.cluster_interface import Change, Object, ObjectEvent, Resource

Start = Callable[[Coroutine[Any, Any, None]], "asyncio.Task[None]"]


class PodApi(Protocol):
    """The calls of a kubelet to a cluster. No call fails for a pod that is gone or was replaced under its name."""

    def watch(self, resource: Resource) -> AsyncIterator[ObjectEvent]:
        """Yield all pods as LISTED, one SYNCED, then every change."""

    async def bind_pod(self, namespace: str, name: str, uid: str, node_name: str) -> None:
        """Schedule the pod: from now on, its deletion waits for `remove_pod`."""

    async def patch_pod_status(self, namespace: str, name: str, uid: str, status: Mapping[str, Any]) -> None:
        """Merge into the pod's status; lists are replaced."""

    async def remove_pod(self, namespace: str, name: str, uid: str) -> None:
        """Confirm that no process of the pod is left."""


@dataclass(slots=True)
class _Entry:
    """A pod of this kubelet; a rejected pod has no runner."""

    pod: Object
    node: str
    faults: list[FieldError]
    runner: PodRunner | None = None
    task: "asyncio.Task[None] | None" = None
    removing: bool = False


class Kubelet:
    """A kubelet; `run` it until cancelled, then `stop` it."""

    def __init__(
        self,
        api: PodApi,
        *,
        supervisor: Supervisor,
        host: Host,
        now: Callable[[], str],
        write: Callable[[str, bytes], None],
    ) -> None:
        """Create a kubelet without pods.

        Args:
            api: the cluster that has the pods.
            supervisor: starts and ends the processes.
            host: the parts of this machine that every pod uses.
            now: returns the time as RFC 3339.
            write: takes the name of a pod and whole lines of its output; must not block.
        """
        self._api = api
        self._supervisor = supervisor
        self._host = host
        self._now = now
        self._write = write
        self._pods: dict[str, _Entry] = {}
        self._nodes = 0
        self._max_grace_s = math.inf

    async def run(self) -> None:
        """Run the pods until cancelled; a bug in the code for one pod ends them all."""
        async with asyncio.TaskGroup() as group:
            async for event in self._api.watch(Resource.POD):
                if event.change is not Change.SYNCED:
                    self._on_pod(event, group.create_task)

    def close(self, grace_s: float) -> None:
        """Accept no more pods, and limit the grace of a deletion to this; a later call may shorten it."""
        self._max_grace_s = min(grace_s, self._max_grace_s)

    async def stop(self, grace_s: float) -> None:
        """Close, stop all pods, and return when no process of them is left. `run` must still be running."""
        self.close(grace_s)
        entries = list(self._pods.values())
        await asyncio.gather(*(entry.runner.stop(grace_s) for entry in entries if entry.runner))
        await asyncio.gather(*(entry.task for entry in entries if entry.task))

    def pids_of(self, uid: str) -> tuple[int, ...]:
        """Return the main processes of a pod's containers that are running."""
        entry = self._pods.get(uid)
        return entry.runner.pids if entry and entry.runner else ()

    @property
    def _closed(self) -> bool:
        return self._max_grace_s < math.inf

    # --- one event -------------------------------------------------------------------------------------------

    def _on_pod(self, event: ObjectEvent, start: Start) -> None:
        pod, deleted = event.object, event.change is Change.DELETED
        entry = self._pods.get(objects.uid_of(pod))
        if entry is None:
            if not deleted and _is_free(pod) and not self._closed:
                entry = self._pods[objects.uid_of(pod)] = self._entry(pod)
                entry.task = start(self._run_pod(entry))
        elif deleted or objects.is_terminating(pod):
            # A pod that disappears at once was removed by force, and is stopped at once.
            start(self._stop(entry, 0.0 if deleted else min(_grace_s(pod), self._max_grace_s)))
            if not entry.removing:
                entry.removing = True
                start(self._remove(entry))

    def _entry(self, pod: Object) -> _Entry:
        """Return the entry of a new pod."""
        # There is no await here: a deletion finds the runner, even if it has not begun.
        entry = _Entry(pod=pod, node=f"local-{self._nodes}", faults=pod_faults(pod.get("spec") or {}, "spec"))
        self._nodes += 1
        if not entry.faults:
            entry.runner = self._pod_task(entry)
        return entry

    def _pod_task(self, entry: _Entry) -> PodRunner:
        facts = PodFacts(pod=entry.pod, node_name=entry.node, pod_ip=self._host.ip, host_ip=self._host.ip)
        name = objects.name_of(entry.pod)
        # A pod must not find the files of an earlier pod of its name.
        folder = name if not (self._host.pods / name).exists() else f"{name}.{objects.uid_of(entry.pod)}"
        return PodRunner(
            plan_pod(facts, self._host, folder),
            supervisor=self._supervisor,
            ips=(self._host.ip, self._host.ip),
            now=self._now,
            report=lambda status: self._report(entry, status),
            write=lambda lines: self._write(name, lines),
        )

    async def _run_pod(self, entry: _Entry) -> None:
        await self._api.bind_pod(*_pod_key(entry.pod), entry.node)
        if entry.runner:
            await entry.runner.run()
            return
        state = LocalPodState(
            start_time=self._now(),
            pod_ip=self._host.ip,
            host_ip=self._host.ip,
            failure=("NotPossibleHere", "; ".join(map(str, entry.faults))),
        )
        await self._report(entry, pod_status(state, self._now()))

    async def _stop(self, entry: _Entry, grace_s: float) -> None:
        if entry.runner:
            await entry.runner.stop(grace_s)

    async def _remove(self, entry: _Entry) -> None:
        if entry.task:
            await entry.task
        await self._api.remove_pod(*_pod_key(entry.pod))
        del self._pods[objects.uid_of(entry.pod)]

    async def _report(self, entry: _Entry, status: Mapping[str, Any]) -> None:
        await self._api.patch_pod_status(*_pod_key(entry.pod), status)


def _pod_key(pod: Object) -> tuple[str, str, str]:
    return objects.namespace_of(pod), objects.name_of(pod), objects.uid_of(pod)


def _is_free(pod: Object) -> bool:
    """Return whether the pod has no node, was not deleted and has not ended."""
    node = (pod.get("spec") or {}).get("nodeName")
    return not node and not objects.is_terminating(pod) and objects.pod_phase(pod) not in objects.ENDED_PHASES


def _grace_s(pod: Object) -> float:
    return float(objects.metadata(pod).get("deletionGracePeriodSeconds") or 0)
