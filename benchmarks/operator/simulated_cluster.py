"""The rest of the cluster for `make bench-operator`, in one process: a kubelet that reports Running, and all agents.

`python -m benchmarks.operator.simulated_cluster URL CERTIFICATE ETCD CLUSTER`. Every pod becomes Running as soon as it
appears. The agents' keys are real records in a real etcd. Each agent writes samples every `reportPeriodSeconds` of its
job, rank 0 with progress. A round is active as soon as every slot has its agent. Each agent has one lease, never
renewed: renewals would only cost etcd. Orders come on stdin; answers are lines of JSON.

    state             {"created": pods ever, "running": …, "created_at_s": last, "running_at_s": last, "active": jobs}
    hold, release     agents wait, or continue: on a cluster they do not run on the API server's machine
    since NAMESPACE/JOB   {"at_s": when its last pod was created, "pods": how many}
"""

import asyncio
import heapq
import itertools
import json
import random
import secrets
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.operator.api_client import Api
from elasticjob_api.keys import ROOT, Keys
from elasticjob_api.records import (
    NodeRecord,
    NodeReport,
    NodeSamples,
    Progress,
    SpecRecord,
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
from elasticjob_etcd.client import EtcdClient
from elasticjob_etcd.interface import Delete, Endpoint, Op, Put, Txn, unchanged
from elasticjob_etcd.mirror import Mirror
from elasticjob_operator.informers.filtered_etcd import FilteredEtcd
from elasticjob_operator.model import job_key
from elasticjob_operator.model.job_key import JobKey

LEASE_S = 4 * 3600.0
STEPS = 100_000
CONCURRENCY = 64
"""Requests at the same time, of the kubelet and of the agents each."""


@dataclass(slots=True)
class Agent:
    """One session of an agent."""

    member: Member
    pod: str
    uid: str
    lease: int


@dataclass(slots=True)
class Job:
    """The records that the agents of one job know."""

    keys: Keys
    slots: SpecRecord | None = None
    state: RendezvousState | None = None
    state_revision: int = 0
    agents: dict[int, Agent] = field(default_factory=dict)
    dirty: bool = False


@dataclass(slots=True)
class Kubelet:
    """A kubelet for all pods; `uids` are those of running ones, by namespace and name."""

    api: Api
    report: Callable[[JobKey | None], None]
    uids: dict[tuple[str, str], str] = field(default_factory=dict)
    known: set[str] = field(default_factory=set)
    running: int = 0
    created_at_s: float = 0.0
    running_at_s: float = 0.0
    by_job: dict[str, tuple[float, int]] = field(default_factory=lambda: defaultdict(lambda: (0.0, 0)))
    room: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(CONCURRENCY))

    async def run(self, tasks: asyncio.TaskGroup) -> None:
        """Watch all pods for ever."""
        while True:
            async for event in self.api.watch("/api/v1/pods"):
                self._take(event, tasks)

    def _take(self, event: dict[str, Any], tasks: asyncio.TaskGroup) -> None:
        meta, now_s = event["object"]["metadata"], time.time()
        uid, place = meta.get("uid", ""), (meta.get("namespace", ""), meta.get("name", ""))
        if event["type"] == "DELETED":
            if self.uids.get(place) == uid:
                del self.uids[place]
            return
        if uid in self.known or event["type"] == "ERROR":
            return
        self.known.add(uid)
        self.created_at_s = now_s
        job = job_key.key_of_pod(event["object"])
        self.by_job[str(job)] = (now_s, self.by_job[str(job)][1] + 1)
        tasks.create_task(self._start(place, uid, event["object"]["spec"]["containers"][0]["name"], job))

    async def _start(self, place: tuple[str, str], uid: str, container: str, job: JobKey | None) -> None:
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        kinds = ("PodScheduled", "Initialized", "ContainersReady", "Ready")
        status = {
            "phase": "Running",
            "podIP": f"10.{secrets.randbelow(256)}.{secrets.randbelow(256)}.{secrets.randbelow(256)}",
            "startTime": now,
            "conditions": [{"type": kind, "status": "True", "lastTransitionTime": now} for kind in kinds],
            "containerStatuses": [
                {
                    "name": container,
                    "image": "i",
                    "imageID": "i",
                    "containerID": f"fake://{uid}",
                    "ready": True,
                    "started": True,
                    "restartCount": 0,
                    "state": {"running": {"startedAt": now}},
                }
            ],
        }
        async with self.room:
            path = f"/api/v1/namespaces/{place[0]}/pods/{place[1]}/status"
            if not await self.api.merge(path, {"metadata": {"uid": uid}, "status": status}, gone=True):
                return
        self.running += 1
        self.running_at_s = time.time()
        self.uids[place] = uid
        self.report(job)


class Agents:
    """All agents of all jobs."""

    def __init__(self, etcd: EtcdClient, cluster: str) -> None:
        self.etcd = etcd
        self._cluster = cluster
        self._filtered_etcd = FilteredEtcd(etcd)
        self.mirror = Mirror(self._filtered_etcd, f"{ROOT}/{cluster}/", on_change=self.check)
        self.jobs: dict[str, Job] = {}
        self.kubelet: Kubelet | None = None
        self._wake, self.may_work = asyncio.Event(), asyncio.Event()
        self.may_work.set()
        self._dirty: set[str] = set()
        self._due: list[tuple[float, int, str, int, str]] = []
        self._count = itertools.count()
        self._concurrency = asyncio.Semaphore(CONCURRENCY)

    @property
    def active(self) -> int:
        """Return the number of jobs whose round is active."""
        return sum(job.state is not None and job.state.phase is RoundPhase.ACTIVE for job in self.jobs.values())

    def check(self) -> None:
        """Handle a change of the mirror: only specs, states and deleted node keys matter."""
        self._wake.set()

    def pod_runs(self, job: JobKey | None) -> None:
        """Note that one of this job's pods runs."""
        if job is not None:
            self._dirty.add(job.keys(self._cluster).prefix)
        self._wake.set()

    async def run(self) -> None:
        """For ever."""
        async with self.mirror, asyncio.TaskGroup() as tasks:
            tasks.create_task(self._report())
            while True:
                await self._wake.wait()
                await self.may_work.wait()
                self._wake.clear()
                await asyncio.sleep(0.02)
                self._read()
                dirty, self._dirty = self._dirty, set()
                await asyncio.gather(*(self._step(prefix) for prefix in dirty if prefix in self.jobs))

    def _read(self) -> None:
        """Read the changes since the last call."""
        touched = self._filtered_etcd.drain_touched()
        for key in self.mirror.items if touched is None else touched:
            if "/c/" in key:
                self._take(key)

    def _take(self, key: str) -> None:
        prefix, _, rest = key.partition("/c/")
        kv = self.mirror.items.get(key)
        if kv is None:
            self._gone(prefix, rest)
        elif rest == "spec":
            self._job(prefix).slots = decode(SpecRecord, kv.value)
        elif rest == "ctl/world":
            job = self._job(prefix)
            job.state, job.state_revision = decode_state(kv.value), kv.mod_revision
        else:
            return
        self._dirty.add(prefix)

    def _job(self, prefix: str) -> Job:
        return self.jobs.setdefault(prefix, Job(Keys(prefix)))

    def _gone(self, prefix: str, rest: str) -> None:
        job = self.jobs.get(prefix)
        if job is None:
            return
        if rest == "spec":
            del self.jobs[prefix]
        elif rest.startswith("nodes/"):
            key = job.keys.control + rest
            job.agents = {s: a for s, a in job.agents.items() if job.keys.node(s, a.member.incarnation) != key}

    async def _step(self, prefix: str) -> None:
        job = self.jobs[prefix]
        if job.slots is None or self.kubelet is None:
            return
        namespace = prefix.split("/")[3]
        ended = job.state is not None and job.state.phase.is_final
        owners = {} if ended else {slot: owner.pod for slot, owner in job.slots.slots.items()}
        for slot, agent in list(job.agents.items()):
            if owners.get(slot) != agent.pod:
                del job.agents[slot]
                await self.etcd.lease_revoke(agent.lease)
        here = {slot: (pod, self.kubelet.uids.get((namespace, pod))) for slot, pod in owners.items()}
        new = [(slot, pod, uid) for slot, (pod, uid) in here.items() if uid and slot not in job.agents]
        await asyncio.gather(*(self._join(job, slot, pod, uid) for slot, pod, uid in new))
        members = tuple(agent.member for _, agent in sorted(job.agents.items()))
        if not members or len(members) < len(owners) or job.slots.suspended:
            return
        if job.state is None or job.state.phase is not RoundPhase.ACTIVE or job.state.members != members:
            await self._activate(job, members)

    async def _join(self, job: Job, slot: int, pod: str, uid: str) -> None:
        async with self._concurrency:
            lease = await self.etcd.lease_grant(LEASE_S)
            agent = Agent(Member(slot, secrets.token_hex(4)), pod, uid, lease.id)
            record = NodeRecord(
                pod=pod, pod_uid=uid, lease=lease.id, host="h", address="10.0.0.1", nproc=1, link_port=1
            )
            await self._put(Put(job.keys.node(slot, agent.member.incarnation), encode(record), lease.id))
        job.agents[slot] = agent

    async def _activate(self, job: Job, members: tuple[Member, ...]) -> None:
        before = job.state
        round_ = 1 if before is None else before.round + (before.phase is RoundPhase.ACTIVE)
        base = before or RendezvousState(phase=RoundPhase.FORMING, round=round_, nonce="")
        state = RendezvousState(
            phase=RoundPhase.ACTIVE,
            round=round_,
            nonce=secrets.token_hex(8),
            node_losses=base.node_losses,
            cause=Cause.FIRST if before is None else Cause.NODE_JOINED,
            restarts=base.restarts,
            master="10.0.0.1:29500",
            nprocs=f"1x{len(members)}",
            members=members,
        )
        ops: list[Op] = [
            Put(job.keys.rendezvous_state, encode_state(state)),
            Put(job.keys.members, encode_membership(Membership(round_, members))),
        ]
        result = await self.etcd.txn(Txn((unchanged(job.keys.rendezvous_state, job.state_revision),), tuple(ops)))
        if not result.succeeded:
            return  # the change that won wakes this task
        job.state, job.state_revision = state, result.revision
        for rank, member in enumerate(members):
            await self._write_report(job, job.agents[member.slot], rank)
            period_s = job.slots.report_period_s if job.slots else 60.0
            due_s = time.monotonic() + random.uniform(0.0, period_s)
            entry = (due_s, next(self._count), job.keys.prefix, member.slot, member.incarnation)
            heapq.heappush(self._due, entry)

    async def _report(self) -> None:
        """Write every agent's samples at its own times."""
        while True:
            await asyncio.sleep(0.05)
            now_s = time.monotonic()
            while self._due and self._due[0][0] <= now_s:
                due_s, _, prefix, slot, incarnation = heapq.heappop(self._due)
                job = self.jobs.get(prefix)
                agent = job.agents.get(slot) if job else None
                if not job or not agent or agent.member.incarnation != incarnation or not job.state or not job.slots:
                    continue
                if agent.member not in job.state.members:
                    continue
                await self._put(self._put_samples(job, agent, job.state.members.index(agent.member)))
                entry = (due_s + job.slots.report_period_s, next(self._count), prefix, slot, incarnation)
                heapq.heappush(self._due, entry)

    async def _write_report(self, job: Job, agent: Agent, rank: int) -> None:
        worker = WorkerReport(rank=rank, state=WorkerState.HEALTHY, pid=4242)
        round_ = job.state.round if job.state else 1
        report = NodeReport(pod=agent.pod, pod_uid=agent.uid, round=round_, group_rank=rank, workers=(worker,))
        key = job.keys.report(agent.member.slot, agent.member.incarnation)
        await self._put(Put(key, encode(report), agent.lease), self._put_samples(job, agent, rank))

    def _put_samples(self, job: Job, agent: Agent, rank: int) -> Put:
        progress = Progress(step=int(time.time() * 10) % STEPS, total=STEPS, metrics={"loss": f"{random.random():.4f}"})
        samples = NodeSamples(
            round=job.state.round if job.state else 1,
            cpu_percent=(round(random.uniform(90.0, 100.0), 1),),
            memory_bytes=(random.randrange(10**9, 10**10),),
            progress=progress if rank == 0 else None,
            time_ns=time.time_ns(),
        )
        return Put(job.keys.samples(agent.member.slot, agent.member.incarnation), encode(samples), agent.lease)

    async def _put(self, *puts: Put) -> None:
        await self.etcd.txn(Txn((), puts))

    async def finish(self, prefix: str) -> None:
        """End all workers of a job with success."""
        job = self.jobs[prefix]
        if job.state is not None and job.state.phase is RoundPhase.ACTIVE:
            state = RendezvousState(
                phase=RoundPhase.SUCCEEDED, round=job.state.round, nonce=secrets.token_hex(8), cause=Cause.SUCCEEDED
            )
            ops = (Put(job.keys.rendezvous_state, encode_state(state)), Delete(job.keys.reports, prefix=True))
            await self.etcd.txn(Txn((unchanged(job.keys.rendezvous_state, job.state_revision),), ops))


async def orders(kubelet: Kubelet, agents: Agents) -> None:
    """Carry orders out until stdin ends."""
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        word, _, rest = line.strip().partition(" ")
        if word == "state":
            known = {"created": len(kubelet.known), "running": kubelet.running, "active": agents.active}
            say({**known, "created_at_s": kubelet.created_at_s, "running_at_s": kubelet.running_at_s})
        elif word in {"hold", "release"}:
            (agents.may_work.clear if word == "hold" else agents.may_work.set)()
            say({})
        elif word == "since":
            at_s, pods = kubelet.by_job.get(rest, (0.0, 0))
            say({"at_s": at_s, "pods": pods})
        elif word == "finish":
            prefixes = [prefix for prefix in agents.jobs if f"/{rest}/" in prefix]
            await asyncio.gather(*(agents.finish(prefix) for prefix in prefixes))
            say({"finished": len(prefixes)})


def say(answer: dict[str, Any]) -> None:
    """One line."""
    print(json.dumps(answer), flush=True)


async def main(url: str, certificate: str, etcd: str, cluster: str) -> None:
    """Simulate until stdin ends."""
    async with Api(url, Path(certificate)) as api:
        agents = Agents(EtcdClient(Endpoint((etcd,))), cluster)
        kubelet = Kubelet(api, agents.pod_runs)
        agents.kubelet = kubelet
        async with asyncio.TaskGroup() as tasks:
            playing = [tasks.create_task(kubelet.run(tasks)), tasks.create_task(agents.run())]
            say({"ready": True})
            await orders(kubelet, agents)
            for task in playing:
                task.cancel()
        await agents.etcd.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
