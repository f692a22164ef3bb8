"""A kubelet whose containers are processes of this machine: every pod gets a node of its own name, `local-<n>`.

It watches pods and says what becomes of them, over four calls (`PodApi`) that `cluster.memory.MemoryCluster` has
and that a real API server can give too. It decides nothing about jobs. A pod without a node is taken, a pod with
another's node is not looked at; a deleted pod is stopped within its grace and its removal confirmed only when
nothing of it runs any more.
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
from elasticjob_cli.local.pod_status import PodState, pod_status
from elasticjob_cli.local.supported import pod_faults
from elasticjob_operator.model import objects
from elasticjob_operator.model.cluster_interface import Change, Object, ObjectEvent, Resource

Start = Callable[[Coroutine[Any, Any, None]], "asyncio.Task[None]"]


class PodApi(Protocol):
    """What a kubelet asks of a cluster. No call fails for a pod that is gone, or that is another of that name."""

    def watch(self, resource: Resource) -> AsyncIterator[ObjectEvent]:
        """All pods as LISTED, one SYNCED, then every change."""

    async def bind_pod(self, namespace: str, name: str, uid: str, node_name: str) -> None:
        """Schedule the pod: from now on its deletion waits for `remove_pod`."""

    async def patch_pod_status(self, namespace: str, name: str, uid: str, status: Mapping[str, Any]) -> None:
        """Merge into the pod's status; lists are replaced."""

    async def remove_pod(self, namespace: str, name: str, uid: str) -> None:
        """Confirm that nothing of the pod runs any more."""


@dataclass(slots=True)
class _Entry:
    """A pod of this kubelet; without a life when it is refused."""

    pod: Object
    node: str
    faults: list[FieldError]
    life: PodRunner | None = None
    task: "asyncio.Task[None] | None" = None
    removing: bool = False


class Kubelet:
    """See the module. `run` until cancelled, then `stop`."""

    def __init__(
        self,
        api: PodApi,
        *,
        supervisor: Supervisor,
        host: Host,
        now: Callable[[], str],
        write: Callable[[str, bytes], None],
    ) -> None:
        """Nothing runs yet.

        Args:
            api: where pods are.
            supervisor: starts and ends the processes.
            host: what this machine gives every pod.
            now: the moment as RFC 3339.
            write: takes the name of a pod and whole lines that it wrote; must not block.
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
        """Follow the pods for ever; a fault of ours in one pod's life ends it all."""
        async with asyncio.TaskGroup() as group:
            async for event in self._api.watch(Resource.POD):
                if event.change is not Change.SYNCED:
                    self._on_pod(event, group.create_task)

    def close(self, grace_s: float) -> None:
        """Take no more pods, and give no deletion more grace than this; a later call may shorten it."""
        self._max_grace_s = min(grace_s, self._max_grace_s)

    async def stop(self, grace_s: float) -> None:
        """Close, stop all pods, return when nothing of them runs. `run` must still be running."""
        self.close(grace_s)
        entries = list(self._pods.values())
        await asyncio.gather(*(entry.life.stop(grace_s) for entry in entries if entry.life))
        await asyncio.gather(*(entry.task for entry in entries if entry.task))

    def pids_of(self, uid: str) -> tuple[int, ...]:
        """The main processes of a pod's containers that run now."""
        entry = self._pods.get(uid)
        return entry.life.pids if entry and entry.life else ()

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
            # A pod that went at once, removed by force, is stopped at once.
            start(self._stop(entry, 0.0 if deleted else min(_grace_s(pod), self._max_grace_s)))
            if not entry.removing:
                entry.removing = True
                start(self._remove(entry))

    def _entry(self, pod: Object) -> _Entry:
        """Everything about a pod, without an await: whoever deletes it finds its life, even if not yet begun."""
        entry = _Entry(pod=pod, node=f"local-{self._nodes}", faults=pod_faults(pod.get("spec") or {}, "spec"))
        self._nodes += 1
        if not entry.faults:
            entry.life = self._pod_task(entry)
        return entry

    def _pod_task(self, entry: _Entry) -> PodRunner:
        facts = PodFacts(pod=entry.pod, node_name=entry.node, pod_ip=self._host.ip, host_ip=self._host.ip)
        name = objects.name_of(entry.pod)
        # A pod of a name that was there before must not find its predecessor's files.
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
        if entry.life:
            await entry.life.run()
            return
        state = PodState(
            start_time=self._now(),
            pod_ip=self._host.ip,
            host_ip=self._host.ip,
            failure=("NotPossibleHere", "; ".join(map(str, entry.faults))),
        )
        await self._report(entry, pod_status(state, self._now()))

    async def _stop(self, entry: _Entry, grace_s: float) -> None:
        if entry.life:
            await entry.life.stop(grace_s)

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
    """Nobody's pod, and still wanted."""
    node = (pod.get("spec") or {}).get("nodeName")
    return not node and not objects.is_terminating(pod) and objects.pod_phase(pod) not in objects.ENDED_PHASES


def _grace_s(pod: Object) -> float:
    return float(objects.metadata(pod).get("deletionGracePeriodSeconds") or 0)
