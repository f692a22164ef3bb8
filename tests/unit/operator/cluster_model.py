"""A small model around a real Reconciler: API server, etcd, kubelets, agents and a leader, each step on demand.

Nothing happens by itself: requests wait at a gate, watch events wait to be delivered, and the clock does not advance.
`Model` has one method for each event; a test calls them in the order of its history.
"""

import asyncio
import itertools
from collections import Counter
from collections.abc import Coroutine, Iterator
from dataclasses import replace
from typing import Any

from elasticjob_api import constants
from elasticjob_api.keys import FailureKey, Keys, job_prefix
from elasticjob_api.records import (
    Completion,
    NodeRecord,
    NodeReport,
    SpecRecord,
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
from elasticjob_etcd.errors import EtcdError
from elasticjob_etcd.interface import Delete, Op, Put, Target, Txn, TxnResult
from elasticjob_etcd.memory.client import InMemoryStore
from elasticjob_operator.cluster.in_memory import InMemoryCluster
from elasticjob_operator.errors import OperatorError
from elasticjob_operator.model import job_key
from elasticjob_operator.model.cluster_interface import Object, Resource
from elasticjob_operator.model.job_key import JobKey
from elasticjob_operator.model.objects import is_terminating, name_of, pod_phase, uid_of
from elasticjob_operator.model.timestamps import to_rfc3339
from elasticjob_operator.policy.slots.replacement_backoff import MAX_BACKOFF_S
from testing.newer_version import newer_json
from tests.unit.operator.gates import HeldRequest
from tests.unit.operator.process import Process

NAMESPACE = "default"
_TURNS = 12
"""Iterations of the event loop after which every task waits at a gate."""


class CountingCluster(InMemoryCluster):
    """A cluster that counts the creations of each pod name, and can refuse pods as a quota does."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self.created: Counter[str] = Counter()
        self.refusal: Exception | None = None
        """The error for the creation of a pod; None: the pod is created."""
        self.refused: Counter[str] = Counter()

    async def create(self, resource: Resource, body: Object) -> Object:
        if resource is Resource.POD and self.refusal is not None:
            self.refused[name_of(body)] += 1
            raise self.refusal
        made = await super().create(resource, body)
        if resource is Resource.POD:
            self.created[name_of(made)] += 1
        return made


class ChainedStore(InMemoryStore):
    """A store that records writes of a spec without a comparison with all planned revisions."""

    def __init__(self) -> None:
        super().__init__()
        self.unfenced: list[str] = []

    def txn(self, txn: Txn) -> TxnResult:
        compared = {compare.key for compare in txn.compares if compare.target is Target.MOD}
        for put in txn.success:
            if isinstance(put, Put) and put.key.endswith("/c/spec"):
                prefix = put.key.removesuffix("/c/spec")
                self.unfenced += [
                    key for key in (Keys(prefix).spec, Keys(prefix).rendezvous_state) if key not in compared
                ]
        return super().txn(txn)


class Model:
    """The whole model, with one method for each event."""

    def __init__(self, **spec: Any) -> None:
        self.loop = asyncio.new_event_loop()
        self.now_s = 1_700_000_000.0
        """The time of the API server's wall clock and of every monotonic clock."""
        self.wrong_by_s = 0.0
        """The difference of the operator's wall clock from the API server's, in seconds."""
        self.store = ChainedStore()
        self.cluster = CountingCluster(clock=lambda: self.now_s)
        self.suffixes: Iterator[str] = (f"p{n:04d}" for n in itertools.count(1))
        self.nonces: Iterator[str] = (f"o{n}" for n in itertools.count(1))
        self._incarnations = (f"{n:08x}" for n in itertools.count(1))
        self._leases: dict[str, int] = {}
        self.closed_at_s: dict[int, float] = {}
        """Round → the earliest time at which it became active, by the operator's wall clock."""
        self.agent_image = "agent:0"
        """The agent image of the operator's next process."""
        self.in_flight: list[HeldRequest] = []
        self.landed_late: set[str] = set()
        """Pods whose creation took effect later after the request than an API server works on one."""
        self.status_is_stale = False
        """Whether an old status has taken effect and is not corrected yet."""
        self.job = self.run(self.cluster.create(Resource.JOB, _manifest(spec)))
        self.key = job_key.key_of_job(self.job)
        self.keys = Keys(job_prefix(cluster="c", namespace=NAMESPACE, name="j", uid=self.key.uid))
        self.process = self._start()
        self.other: Process | None = None
        """Another operator that believes that it leads; it does nothing until `swap`."""

    def set_wall_clock(self, wrong_by_s: float) -> None:
        """Step the wall clock of the operator's machine, without advancing the time."""
        self.wrong_by_s = wrong_by_s
        self.closed_at_s = {round_: min(at_s, self.now_s + wrong_by_s) for round_, at_s in self.closed_at_s.items()}

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        result = self.loop.run_until_complete(work)
        self.settle()
        return result

    def settle(self) -> None:
        """Run all tasks up to the next gate."""
        self.loop.run_until_complete(_turns())

    def close(self) -> None:
        self.end_other()
        self.loop.run_until_complete(self.process.stop())
        self.loop.run_until_complete(self.loop.shutdown_asyncgens())
        self.loop.close()

    # The operator's process.

    def _start(self, *, deliver_jobs: bool = True, deliver_pods: bool = True) -> Process:
        process = Process(self)
        self.settle()
        if deliver_jobs:
            process.deliver(Resource.JOB)
        if deliver_pods:
            process.deliver(Resource.POD)
        return process

    def begin_reconcile(self, key: JobKey | None = None) -> None:
        """Pass the job, or another one with keys, from the work queue to the reconciler, unless a reconcile runs."""
        if self.process.turn is None:
            self.process.turn = self.loop.create_task(self.process.reconciler.reconcile(key or self.key))
            self.settle()
            self._end_reconcile()

    def _end_reconcile(self) -> None:
        turn = self.process.turn
        if turn is None or not turn.done():
            return
        self.process.turn = None
        try:
            delay_s = turn.result()
        except (OperatorError, EtcdError):
            delay_s = 0.1  # errors after which the queue retries
        self.process.again_at_s = None if delay_s is None else self.now_s + delay_s

    def finish_reconcile(self) -> None:
        """Answer every request of the running reconcile."""
        while self.process.turn is not None:
            self.answer(0)

    def answer(self, index: int, *, lose_answer: bool = False) -> None:
        """Execute a request."""
        held = self.process.gate.held.pop(index)
        self.run(held.pass_through(lose_answer=lose_answer))
        self._end_reconcile()

    def refuse(self, index: int, *, lands_later: bool) -> None:
        """Fail a request; it is lost, or takes effect later."""
        held = self.process.gate.held.pop(index)
        if lands_later and held.writes:
            self.in_flight.append(held)
        held.fail()
        self.settle()
        self._end_reconcile()

    def crash(self, *, land: list[bool], deliver_jobs: bool = True, deliver_pods: bool = True) -> None:
        """End the process and start another; the requests in `land` may still take effect."""
        held = self.process.gate.held
        marks = itertools.chain(land, itertools.repeat(False))
        self.in_flight += [request for request, on_way in zip(held, marks, strict=False) if on_way and request.writes]
        self.run(self.process.stop())
        self.process = self._start(deliver_jobs=deliver_jobs, deliver_pods=deliver_pods)

    def leave_newer_status(self) -> None:
        """Write the status as a newer operator does, with fields that this version does not know."""
        if status := self.status():
            self.run(self.cluster.patch_status(Resource.JOB, NAMESPACE, "j", newer_json(status)))

    def lose_keys(self) -> None:
        """Replace etcd by an empty one; no old status may still take effect."""
        self.in_flight = [held for held in self.in_flight if held.description != "status"]
        self._put(Delete(self.keys.everything, prefix=True))

    def start_another(self) -> None:
        """Start a second operator that leads; the first one still believes that it leads."""
        self.other, self.process = self.process, self._start()
        self.status_is_stale = True

    def swap(self) -> None:
        """Make the other operator `process`, so that both act in any order."""
        if self.other is not None:
            self.other, self.process = self.process, self.other

    def end_other(self) -> None:
        """End the leadership of one of the two; its requests may still take effect."""
        if self.other is not None:
            self.in_flight += [held for held in self.other.gate.held if held.writes]
            self.run(self.other.stop())
            self.other = None

    def land(self, index: int) -> None:
        """Execute an old request."""
        held, before = self.in_flight.pop(index), set(self.cluster.created)
        self.status_is_stale |= held.description == "status"
        self.run(held.pass_through())
        self.landed_late |= set(self.cluster.created) - before

    # Kubelets and agents.

    def pods(self) -> list[Object]:
        return self.cluster.objects(Resource.POD)

    def start_pod(self, pod: Object) -> None:
        """Schedule and start a pod; its agent joins."""
        name, uid = name_of(pod), uid_of(pod)
        self.run(self.cluster.bind_pod(NAMESPACE, name, uid, "node"))
        self.run(self.cluster.patch_pod_status(NAMESPACE, name, uid, {"phase": "Running"}))
        lease = self._leases[uid] = self.store.grant(3600.0).id
        node = NodeRecord(pod=name, pod_uid=uid, lease=lease, host=name, address="a", nproc=1)
        self._put(Put(self.keys.node(slot_of(pod), next(self._incarnations)), encode(node), lease))

    def end_pod(self, pod: Object, *, exit_code: int, disrupted: bool = False) -> None:
        """End the containers of a pod; the lease lasts for a while."""
        ended = {"exitCode": exit_code, "reason": "Error", "finishedAt": to_rfc3339(self.now_s)}
        state = {"terminated": ended}
        status: dict[str, Any] = {"phase": "Failed", "containerStatuses": [{"name": "trainer", "state": state}]}
        if disrupted:
            status["conditions"] = [{"type": "DisruptionTarget", "status": "True"}]
        self.run(self.cluster.patch_pod_status(NAMESPACE, name_of(pod), uid_of(pod), status))

    def expire(self, pod: Object) -> None:
        """Expire the lease of the pod's agent."""
        if (lease := self._leases.pop(uid_of(pod), None)) is not None:
            self.store.revoke(lease)
            self.settle()

    def delete_pod(self, pod: Object) -> None:
        self.run(self.cluster.delete(Resource.POD, NAMESPACE, name_of(pod)))

    def confirm_deletion(self, pod: Object) -> None:
        self.expire(pod)
        self.run(self.cluster.remove_pod(NAMESPACE, name_of(pod), uid_of(pod)))

    # The user.

    def patch(self, **spec: Any) -> None:
        if self.job_object() is not None:
            self.run(self.cluster.patch_spec(Resource.JOB, NAMESPACE, "j", spec))

    def delete_job(self) -> None:
        self.run(self.cluster.delete(Resource.JOB, NAMESPACE, "j", uid=self.key.uid))

    def job_object(self) -> Object | None:
        jobs = self.cluster.objects(Resource.JOB)
        return jobs[0] if jobs else None

    def status(self) -> dict[str, Any]:
        status: dict[str, Any] = (self.job_object() or {}).get("status", {})
        return status

    # The leader is always up to date: it is not under test here.

    def spec(self) -> SpecRecord | None:
        kv = self.store.get(self.keys.spec)
        return decode(SpecRecord, kv.value) if kv else None

    def state(self) -> RendezvousState | None:
        kv = self.store.get(self.keys.rendezvous_state)
        return decode_state(kv.value) if kv else None

    def named(self) -> set[str]:
        spec = self.spec()
        return {owner.pod for owner in spec.slots.values()} if spec else set()

    def close_round(self) -> None:
        """Form a round of the agents that joined and own a slot, if they are enough."""
        spec, state = self.spec(), self.state()
        if (
            spec is None
            or spec.suspended
            or (state is not None and state.phase not in {RoundPhase.ACTIVE, RoundPhase.FORMING})
        ):
            return
        members = tuple(sorted(self._joined(spec)))
        if len(members) < spec.min:
            return
        before = state or RendezvousState(phase=RoundPhase.FORMING, round=max(1, spec.first_round), nonce="")
        round_ = before.round + (before.phase is RoundPhase.ACTIVE)
        active = replace(before, phase=RoundPhase.ACTIVE, round=round_, nonce=next(self.nonces), members=members)
        membership = encode_membership(Membership(round_, members))
        nprocs = f"1x{len(members)}"
        state_put = Put(self.keys.rendezvous_state, encode_state(replace(active, nprocs=nprocs)))
        self._put(state_put, Put(self.keys.members, membership))
        self.closed_at_s[round_] = self.now_s + self.wrong_by_s
        for member in members:
            self._report(member, round_, WorkerState.HEALTHY)

    def _report(self, member: Member, round_: int, state: WorkerState) -> None:
        """Write the report of an agent about its only worker, unless the agent has ended."""
        if (kv := self.store.get(self.keys.node(member.slot, member.incarnation))) is not None:
            node, worker = decode(NodeRecord, kv.value), WorkerReport(rank=0, state=state, pid=1)
            report = NodeReport(pod=node.pod, pod_uid=node.pod_uid, round=round_, workers=(worker,))
            self._put(Put(self.keys.report(member.slot, member.incarnation), encode(report), node.lease))

    def _joined(self, spec: SpecRecord) -> Iterator[Member]:
        for kv in self.store.range(self.keys.nodes).kvs:
            parsed, node = self.keys.parse(kv.key), decode(NodeRecord, kv.value)
            assert parsed is not None
            owner = spec.owner(parsed.slot or 0)
            if owner is not None and owner.pod == node.pod:
                yield Member(parsed.slot or 0, parsed.incarnation or "")

    def fail_worker(self) -> None:
        state = self.state()
        if state is not None and state.phase is RoundPhase.ACTIVE:
            self._fail_worker(state)

    def _fail_worker(self, state: RendezvousState) -> None:
        member = state.members[0]
        failure = WorkerFailure(incarnation=member.incarnation, rank=0, exit_code=1)
        root = str(FailureKey(state.round, member.slot, 0))
        opened = replace(state, phase=RoundPhase.FORMING, round=state.round + 1, nonce=next(self.nonces), members=())
        opened = replace(opened, cause=Cause.WORKER_FAILED, restarts=state.restarts + 1, root_cause=root, nprocs="")
        self._report(member, state.round, WorkerState.FAILED)
        key = self.keys.failure(state.round, member.slot, 0)
        self._put(Put(key, encode(failure)), Put(self.keys.rendezvous_state, encode_state(opened)))

    def finish_all(self) -> None:
        """Complete all members; there is no leader that writes the success."""
        state = self.state()
        for member in state.members if state is not None else ():
            self._put(
                Put(
                    self.keys.completion(state.round if state else 0, member.slot),
                    encode(Completion(member.incarnation)),
                )
            )

    def finish_member(self, index: int) -> None:
        """Let a member's workers exit with 0; after the last member the job has succeeded."""
        state = self.state()
        if state is None or state.phase is not RoundPhase.ACTIVE:
            return
        member = state.members[index % len(state.members)]
        self._report(member, state.round, WorkerState.SUCCEEDED)
        self._put(Put(self.keys.completion(state.round, member.slot), encode(Completion(member.incarnation))))
        dones = {
            kv.key: decode(Completion, kv.value) for kv in self.store.range(self.keys.completions(state.round)).kvs
        }
        if {self.keys.completion(state.round, m.slot): Completion(m.incarnation) for m in state.members} == dones:
            ended = replace(state, phase=RoundPhase.SUCCEEDED, nonce=next(self.nonces), cause=Cause.SUCCEEDED)
            self._put(Put(self.keys.rendezvous_state, encode_state(ended)))

    def is_done(self, round_: int, member: Member) -> bool:
        """Return whether the member has recorded that all of its workers exited with 0."""
        kv = self.store.get(self.keys.completion(round_, member.slot))
        return kv is not None and decode(Completion, kv.value).incarnation == member.incarnation

    def _put(self, *ops: Op) -> None:
        self.store.txn(Txn((), ops))
        self.settle()

    # The end.

    def quiesce(self) -> None:
        """Let every late request take effect, then let the operator work until it has nothing to do."""
        while self.in_flight:
            self.land(0)
        self.quiesce_without_landing()
        self.status_is_stale = False

    def quiesce_without_landing(self) -> None:
        """Let the operator work with current caches; late requests remain pending."""
        self.etcd_is_away(away=False)
        self.finish_reconcile()
        self.catch_up()

    def etcd_is_away(self, *, away: bool) -> None:
        """Make etcd stop answering the operator's probe, and stop its mirror."""
        self.process.health.trouble = "etcd does not answer" if away else ""
        (self.process.mirror_etcd.disconnect if away else self.process.mirror_etcd.reconnect)()
        self.settle()

    def catch_up(self) -> None:
        """Let the operator work with current caches until nothing changes."""
        for _ in range(100):
            before = self._everything()
            self.undisturbed_turn()
            if self._everything() == before and not self._is_due():
                return
        raise AssertionError("the operator never comes to rest")

    def _everything(self) -> Any:
        return self.store.revision, self.cluster.objects(Resource.POD), self.status()

    def undisturbed_turn(self) -> None:
        for resource in self.process.streams:
            self.process.deliver(resource)
        self.begin_reconcile()
        self.finish_reconcile()
        for resource in self.process.streams:
            self.process.deliver(resource)

    def _is_due(self) -> bool:
        """Return whether another reconcile is due soon without a change, and advance the time to it."""
        at_s = self.process.again_at_s
        if at_s is None or at_s > self.now_s + (MAX_BACKOFF_S if self._waits_for_a_pod() else 6.0):
            return False
        self.now_s = max(self.now_s, at_s)
        return True

    def _waits_for_a_pod(self) -> bool:
        """Return whether a slot has no pod because of its back-off.

        A refused pod does not count, and neither does the pod of a finished member: it is not replaced in this round.
        """
        if self.cluster.refusal is not None:
            return False
        state, live = self.state(), {name_of(pod) for pod in self.pods() if is_live(pod)}
        return (state is None or not state.phase.is_final) and not self.named() - self._finished_pods() <= live

    def _finished_pods(self) -> set[str]:
        """Return the pods of members of the active round whose workers have all exited with 0."""
        spec, state = self.spec(), self.state()
        if spec is None or state is None or state.phase is not RoundPhase.ACTIVE:
            return set()
        owners = [spec.owner(member.slot) for member in state.members if self.is_done(state.round, member)]
        return {owner.pod for owner in owners if owner is not None}


async def _turns() -> None:
    for _ in range(_TURNS):
        await asyncio.sleep(0)


def slot_of(pod: Object) -> int:
    return int(pod["metadata"]["labels"][constants.LABEL_SLOT])


def is_live(pod: Object) -> bool:
    return not is_terminating(pod) and pod_phase(pod) in {"Pending", "Running"}


def is_bound(pod: Object) -> bool:
    return bool(pod["spec"].get("nodeName"))


def template(image: str = "example/trainer:1") -> Object:
    return {"spec": {"containers": [{"name": "trainer", "image": image, "command": ["train"]}]}}


def _manifest(spec: dict[str, Any]) -> Object:
    return {
        "apiVersion": constants.API_VERSION,
        "kind": constants.KIND,
        "metadata": {"name": "j", "namespace": NAMESPACE},
        "spec": {"template": template(), **spec},
    }
