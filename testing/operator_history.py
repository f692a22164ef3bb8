"""A harness for whole histories: the real Operator over InMemoryCluster and InMemoryEtcd, without agents and nodes.

A test does the steps of kubelets, agents and the leader one by one; their writes use the real records.
Nothing waits for time: `until` waits for a condition with a deadline.
"""

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import replace
from typing import Any

from elasticjob_api import constants
from elasticjob_api.keys import FailureKey, Keys, job_prefix
from elasticjob_api.records import (
    Completion,
    KeepReport,
    NodeRecord,
    NodeReport,
    NodeSamples,
    Progress,
    SpecRecord,
    StartReport,
    WorkerFailure,
    WorkerReport,
    WorkerState,
    decode,
    encode,
)
from elasticjob_api.rendezvous_state import (
    Cause,
    Member,
    Membership,
    RendezvousState,
    RoundPhase,
    decode_state,
    encode_membership,
    encode_state,
)
from elasticjob_etcd.interface import Delete, Op, Put, Txn
from elasticjob_etcd.memory.client import InMemoryEtcd, InMemoryStore
from elasticjob_operator.cluster.in_memory import InMemoryCluster
from elasticjob_operator.controller.controller import Controller
from elasticjob_operator.model.cluster_interface import Object, Resource
from elasticjob_operator.model.objects import is_terminating, name_of, pod_phase, uid_of
from elasticjob_operator.settings import Settings
from testing.waiting import aeventually

NAMESPACE = "default"
SETTINGS = Settings(
    cluster_id="c1",
    operator_id="op1",
    installation="here",
    etcd_endpoints=("etcd:2379",),
    status_period_s=0.01,
    progress_period_s=0.02,
)
LEASE_S = 600.0


def manifest(name: str = "digits", **spec: Any) -> Object:
    template = {"spec": {"containers": [{"name": "trainer", "image": "i", "command": ["python", "train.py"]}]}}
    return {
        "apiVersion": constants.API_VERSION,
        "kind": constants.KIND,
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"template": template, "nprocPerNode": 2, **spec},
    }


class OperatorHistory:
    """One job with its operator; the test acts for every other component through it."""

    def __init__(self, cluster: InMemoryCluster | None = None) -> None:
        self.cluster = cluster or InMemoryCluster()
        self.etcd = InMemoryEtcd(InMemoryStore())
        self.job: Object = {}
        self._incarnations = (f"{n:08x}" for n in itertools.count(1))
        self._nonces = (f"n{n}" for n in itertools.count(1))
        self._leases: dict[str, int] = {}
        self._node_keys: dict[str, str] = {}
        self._operator: asyncio.Task[None] | None = None

    # The operator and the user.

    def start_operator(self, settings: Settings = SETTINGS) -> None:
        operator = Controller(self.cluster, self.etcd, settings, watch=self.cluster.watch)
        self._operator = asyncio.create_task(operator.run())

    async def stop_operator(self) -> None:
        if self._operator is not None:
            self._operator.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._operator

    def second_operator(self) -> "OperatorHistory":
        """Return the harness of another job of the same operator."""
        other = OperatorHistory()
        other.cluster, other.etcd = self.cluster, self.etcd
        return other

    async def apply(self, body: Object) -> None:
        self.job = await self.cluster.create(Resource.JOB, body)

    async def scale(self, **spec: Any) -> None:
        await self.cluster.patch_spec(Resource.JOB, NAMESPACE, name_of(self.job), spec)

    @property
    def keys(self) -> Keys:
        meta = self.job["metadata"]
        return Keys(job_prefix(cluster="c1", namespace=NAMESPACE, name=meta["name"], uid=meta["uid"]))

    # State.

    def pods(self) -> list[Object]:
        """Return this job's pods, without those that terminate and failed ones that remain for their logs."""
        retained = self.kept_pods()
        return [pod for pod in self._all_pods() if not is_terminating(pod) and pod not in retained]

    def kept_pods(self) -> list[Object]:
        """Return failed pods whose slot has another pod."""
        spec = self.spec()
        named = {owner.pod for owner in spec.slots.values()} if spec else set()
        failed = [pod for pod in self._all_pods() if pod_phase(pod) == "Failed" and not is_terminating(pod)]
        return [pod for pod in failed if named and name_of(pod) not in named]

    def _all_pods(self) -> list[Object]:
        uid = uid_of(self.job)
        found = self.cluster.objects(Resource.POD)
        return [pod for pod in found if pod["metadata"]["labels"].get(constants.LABEL_JOB_UID) == uid]

    def unended_pods(self) -> list[Object]:
        """Return this job's pods that may run: also those that terminate."""
        return [pod for pod in self._all_pods() if pod["status"].get("phase") in {"Pending", "Running"}]

    def pod_names(self) -> set[str]:
        return {name_of(pod) for pod in self.pods()}

    def slot_of(self, pod: Object) -> int:
        return int(pod["metadata"]["labels"][constants.LABEL_SLOT])

    def pod(self, slot: int) -> Object:
        return next(pod for pod in self.pods() if self.slot_of(pod) == slot)

    def status(self) -> dict[str, Any]:
        found = [job for job in self.cluster.objects(Resource.JOB) if uid_of(job) == uid_of(self.job)]
        status: dict[str, Any] = found[0].get("status", {}) if found else {}
        return status

    def condition(self, name: str) -> dict[str, Any]:
        return next((c for c in self.status().get("conditions", []) if c["type"] == name), {})

    def state(self) -> RendezvousState | None:
        kv = self.etcd.store.get(self.keys.rendezvous_state)
        return decode_state(kv.value) if kv else None

    def spec(self) -> SpecRecord | None:
        kv = self.etcd.store.get(self.keys.spec)
        return decode(SpecRecord, kv.value) if kv else None

    def owners(self) -> set[str]:
        """Return the names of the pods in the slot map."""
        spec = self.spec()
        return {owner.pod for owner in spec.slots.values()} if spec else set()

    def etcd_keys(self) -> list[str]:
        return [kv.key for kv in self.etcd.store.range("/elasticjob/").kvs]

    def events(self) -> list[str]:
        return [event["reason"] for event in self.cluster.objects(Resource.EVENT)]

    async def until(self, what: str, holds: Callable[[], Any]) -> Any:
        return await aeventually(holds, what=what)

    # Actions of kubelets and agents.

    async def run_pods(self, count: int) -> None:
        """Wait for `count` pods; start those that do not run, each with an agent that joins."""
        await self.until(f"{count} pods", lambda: len(self.pods()) == count)
        for pod in self.pods():
            if "nodeName" not in pod["spec"]:
                await self.cluster.bind_pod(NAMESPACE, name_of(pod), uid_of(pod), "node-1")
                running = {"phase": "Running", "podIP": "127.0.0.1"}
                await self.cluster.patch_pod_status(NAMESPACE, name_of(pod), uid_of(pod), running)
                await self.join(pod)

    async def join(self, pod: Object) -> None:
        lease = (await self.etcd.lease_grant(LEASE_S)).id
        self._leases[uid_of(pod)] = lease
        node = NodeRecord(
            pod=name_of(pod), pod_uid=uid_of(pod), lease=lease, host=name_of(pod), address="127.0.0.1", nproc=2
        )
        key = self._node_keys.setdefault(uid_of(pod), self.keys.node(self.slot_of(pod), next(self._incarnations)))
        await self._put(Put(key, encode(node), lease))

    async def end_pod(self, pod: Object, *, exit_code: int) -> None:
        """End the agent's process; its keys remain until its lease expires."""
        phase = "Failed" if exit_code else "Succeeded"
        terminated = {"exitCode": exit_code, "reason": "Error" if exit_code else "Completed"}
        statuses = [{"name": "trainer", "state": {"terminated": terminated}}]
        status = {"phase": phase, "containerStatuses": statuses}
        await self.cluster.patch_pod_status(NAMESPACE, name_of(pod), uid_of(pod), status)

    async def confirm_deletions(self) -> None:
        """Stop all Terminating pods, as kubelets do; their agents leave."""
        for pod in self._all_pods():
            if is_terminating(pod):
                await self.leave(pod)
                await self.cluster.remove_pod(NAMESPACE, name_of(pod), uid_of(pod))

    async def relabel(self, pod: Object, labels: Mapping[str, str]) -> None:
        """Set labels of a pod, as another operator might."""
        metadata = {"name": name_of(pod), "namespace": NAMESPACE, "labels": {**pod["metadata"]["labels"], **labels}}
        await self.cluster.apply(Resource.POD, {**pod, "metadata": {**pod["metadata"], **metadata}})

    async def leave(self, pod: Object) -> None:
        if (lease := self._leases.pop(uid_of(pod), None)) is not None:
            await self.etcd.lease_revoke(lease)

    # Actions of the leader.

    async def close_round(self, cause: Cause = Cause.FIRST) -> RendezvousState:
        """Make a round active with all agents that have joined and own their slot."""
        members = await self.members()
        state = self.state() or RendezvousState(phase=RoundPhase.FORMING, round=0, nonce="")
        active = replace(state, phase=RoundPhase.ACTIVE, round=state.round + 1, nonce=next(self._nonces), cause=cause)
        active = replace(active, members=members, nprocs=f"2x{len(members)}", master="127.0.0.1:1")
        membership = encode_membership(Membership(active.round, members))
        await self._put(Put(self.keys.rendezvous_state, encode_state(active)), Put(self.keys.members, membership))
        for rank, member in enumerate(members):
            await self.report(member, rank, WorkerState.HEALTHY)
        return active

    async def members(self) -> tuple[Member, ...]:
        spec = self.spec()
        assert spec is not None
        found = []
        for kv in self.etcd.store.range(self.keys.nodes).kvs:
            parsed, node = self.keys.parse(kv.key), decode(NodeRecord, kv.value)
            assert parsed is not None
            assert parsed.slot is not None
            owner = spec.owner(parsed.slot)
            if owner is not None and owner.pod == node.pod:
                found.append(Member(parsed.slot, parsed.incarnation or ""))
        return tuple(sorted(found))

    async def report(
        self,
        member: Member,
        rank: int,
        state: WorkerState,
        progress: Progress | None = None,
        *,
        cpu_percent: float | None = None,
        start: StartReport | None = None,
        keep: KeepReport | None = None,
    ) -> None:
        node = self.etcd.store.get(self.keys.node(member.slot, member.incarnation))
        now = self.state()
        assert node is not None
        assert now is not None
        record = decode(NodeRecord, node.value)
        workers = tuple(WorkerReport(rank=2 * rank + i, state=state, pid=100 + i) for i in range(2))
        report = NodeReport(
            pod=record.pod, pod_uid=record.pod_uid, round=now.round, group_rank=rank, workers=workers, start=start
        )
        samples = NodeSamples(round=now.round, cpu_percent=(cpu_percent,) * 2, progress=progress, keep=keep)
        await self._put(
            Put(self.keys.report(member.slot, member.incarnation), encode(report), record.lease),
            Put(self.keys.samples(member.slot, member.incarnation), encode(samples), record.lease),
        )

    async def fail_worker(self, slot: int, *, exit_code: int = -9) -> None:
        """Fail a worker of this slot: its agent opens the next round, the leader charges it as the root cause."""
        state = self.state()
        assert state is not None
        member = next(m for m in state.members if m.slot == slot)
        failure = WorkerFailure(incarnation=member.incarnation, rank=0, exit_code=exit_code, signal="SIGKILL", pod="p")
        forming = replace(
            state,
            phase=RoundPhase.FORMING,
            round=state.round + 1,
            nonce=next(self._nonces),
            cause=Cause.WORKER_FAILED,
            restarts=state.restarts + 1,
            root_cause=str(FailureKey(state.round, slot, 0)),
            members=(),
            nprocs="",
        )
        key = self.keys.failure(state.round, slot, 0)
        await self._put(Put(key, encode(failure)), Put(self.keys.rendezvous_state, encode_state(forming)))

    async def finish(self, *slots: int) -> None:
        """Write the completions of these members."""
        state = self.state()
        assert state is not None
        for member in (m for m in state.members if m.slot in slots):
            await self._put(Put(self.keys.completion(state.round, member.slot), encode(Completion(member.incarnation))))

    async def end(self, phase: RoundPhase, cause: Cause, detail: str = "") -> None:
        """Write a final state, as the leader does."""
        state = self.state()
        assert state is not None
        final = replace(state, phase=phase, nonce=next(self._nonces), cause=cause, message=detail)
        await self._put(Put(self.keys.rendezvous_state, encode_state(final)))

    async def wipe(self) -> None:
        """Delete all of the job's keys in etcd."""
        await self._put(Delete(self.keys.everything, prefix=True))

    async def _put(self, *ops: Op) -> None:
        await self.etcd.txn(Txn((), ops))


@contextlib.asynccontextmanager
async def operator_history(cluster: InMemoryCluster | None = None, /, **spec: Any) -> AsyncIterator[OperatorHistory]:
    """A job with this spec, and a running operator."""
    stage = OperatorHistory(cluster)
    stage.start_operator()
    try:
        await stage.apply(manifest(**spec))
        yield stage
    finally:
        await stage.stop_operator()
        await stage.etcd.close()


async def running(stage: OperatorHistory, count: int) -> None:
    """Wait until the job runs its first round with `count` nodes."""
    await stage.run_pods(count)
    await stage.close_round()
    await stage.until("phase Running", lambda: stage.status().get("phase") == "Running")
