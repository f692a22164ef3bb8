"""`make bench-operator`: a thousand jobs of ten pods on a real kube-apiserver, and their cost for the operator.

A real API server and two etcds run (its own, and the jobs'). One process simulates kubelets and agents: it reports
Running at once and writes every agent's reports at the default rate (`simulated_cluster.py`). All of it shares this
machine, so each figure is an upper bound. Printed, beside its aim:

    pods: operator / bare     first job applied → last pod Running, against the same pods from a bare client loop
    steady                    memory, processor and API writes while all jobs run and report
    apply → pods created      one job more, at that size
    restart                   SIGKILL, start → in charge: changes made meanwhile are done; then all reconciled
    churn                     memory and processor while jobs come, go, are resized and lose pods
"""

import argparse
import asyncio
import copy
import functools
import platform
import random
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.operator.api_client import JOBS, Api, side_by_side
from benchmarks.operator.churn import CHANGES_PER_SECOND, churn
from benchmarks.operator.stack import OperatorProcess, ResourceUse, SimulatedCluster, stage, wait_until
from elasticjob_operator.controller.job_parser import parse
from elasticjob_operator.model.pod_source import PodSource
from elasticjob_operator.render.pod import render_pod
from elasticjob_operator.settings import Settings
from testing.servers.apiserver import ApiServer

NAMESPACES = 10
APPLIED = 20
SETTLE_S = 15.0
PODS_AIM, CPU_AIM, MEMORY_AIM_MB, APPLY_AIM_S, RESTART_AIM_S = 1.3, 5.0, 300.0, 0.2, 15.0
JOB_WRITES_AIM, WRITES_AIM = 1 / 30, 5.0
"""API writes a second: at most one progress write for each job, and at most this for all of them."""


@dataclass(frozen=True)
class Scale:
    """How much."""

    jobs: int
    pods: int

    def names(self) -> Iterator[tuple[str, str]]:
        """Return namespace and name of every job."""
        for number in range(self.jobs):
            yield f"team-{number % NAMESPACES}", f"job-{number}"


def job(name: str, pods: int) -> dict[str, Any]:
    """Return a job as a user writes one: the agent injected, every other field at its default."""
    environment = [{"name": f"SETTING_{n}", "value": f"value-{n}"} for n in range(10)]
    container = {
        "name": "trainer",
        "image": "example/training:1",
        "command": ["python", "train.py", "--epochs", "10"],
        "env": environment,
        "resources": {"limits": {"cpu": "4", "memory": "16Gi"}},
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
    }
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    return {
        "apiVersion": "elasticjob.io/v1alpha1",
        "kind": "ElasticJob",
        "metadata": {"name": name},
        "spec": {
            "replicas": pods,
            "minReplicas": 2,
            "maxReplicas": pods + 2,
            "nprocPerNode": 1,
            "template": {"spec": {"containers": [container], "volumes": volumes}},
        },
    }


def bare_pods(scale: Scale) -> Iterator[dict[str, Any]]:
    """Return the same pods as the operator's, without a job."""
    body = job("bare", scale.pods)
    body["metadata"] |= {"namespace": "bare", "uid": "0", "generation": 1}
    accepted = parse(body)
    settings = Settings(
        cluster_id="c", operator_id="o", etcd_endpoints=("127.0.0.1:2379",), agent_image="example/agent:1"
    )
    for number in range(scale.jobs * scale.pods):
        slot = number % scale.pods
        pod = copy.deepcopy(dict(render_pod(PodSource(accepted, settings), slot=slot, name=f"bare-{number}")))
        pod["metadata"]["labels"] = {"app": "bare"}  # they stay: the operator must not take them for its own
        yield pod


class Bench:
    """One run, with the objects that every step needs."""

    def __init__(self, server: ApiServer, cast: SimulatedCluster, scale: Scale) -> None:
        self.server = server
        self.cast = cast
        self.scale = scale

    def bare(self, jobs: int) -> float:
        """Return the seconds from the first request to the last pod Running, for a bare loop and so many jobs' pods."""
        scale = Scale(jobs, self.scale.pods)
        asyncio.run(self._namespaces())
        before, spent = self.cast.ask("state"), ResourceUse()
        began_s = time.time()
        asyncio.run(self._create_bare(scale))
        wanted = int(before["running"]) + scale.jobs * scale.pods
        wait_until("bare pods run", lambda: self.cast.ask("state")["running"] >= wanted)
        print(f"                      {spent}", flush=True)
        return float(self.cast.ask("state")["running_at_s"]) - began_s

    async def _namespaces(self) -> None:
        async with self._api() as api:
            for name in ("bare", *(f"team-{n}" for n in range(NAMESPACES))):
                await api.post("/api/v1/namespaces", {"metadata": {"name": name}})

    async def _create_bare(self, scale: Scale) -> None:
        async with self._api() as api:
            path = "/api/v1/namespaces/bare/pods"
            await side_by_side(functools.partial(api.post, path, body) for body in bare_pods(scale))

    def crowd(self, operator: OperatorProcess) -> tuple[float, float]:
        """Return the seconds from the first job applied to the last pod Running, and to the last job Running.

        Agents begin when all pods run, so that both loops leave this machine the same work; on a cluster nodes do it.
        """
        self.cast.ask("hold")
        writes = self.writes()
        before, spent = self.cast.ask("state"), ResourceUse()
        wanted = int(before["running"]) + self.scale.jobs * self.scale.pods
        began_s = time.time()
        asyncio.run(self._create_jobs())
        wait_until("all pods run", lambda: self.cast.ask("state")["running"] >= wanted)
        pods_s = float(self.cast.ask("state")["running_at_s"]) - began_s
        print(f"                      {spent}; turns a job: {operator.turns() / self.scale.jobs:.1f}", flush=True)
        self.cast.ask("release")
        wait_until("all jobs run", lambda: operator.phases().get("Running", 0) >= self.scale.jobs, pause_s=0.5)
        took_s = time.time() - began_s
        made = [f"{what} {count / self.scale.jobs:.1f}" for what, count in (self.writes() - writes).most_common()]
        print(f"                      API writes a job: {', '.join(made)}", flush=True)
        return pods_s, took_s

    async def _create_jobs(self) -> None:
        async with self._api() as api:
            await side_by_side(
                functools.partial(api.post, _path(namespace), self.new_job(name))
                for namespace, name in self.scale.names()
            )

    def steady(self, operator: OperatorProcess, for_s: float) -> tuple[float, float, float]:
        """Return megabytes, percent of a core and API writes a second while all jobs run and report."""
        self.quiet(operator)
        writes, cpu_s, began_s = self.writes(), operator.cpu_s, time.monotonic()
        time.sleep(for_s)
        took_s = time.monotonic() - began_s
        return operator.rss_mb, 100 * (operator.cpu_s - cpu_s) / took_s, (self.writes() - writes).total() / took_s

    def quiet(self, operator: OperatorProcess) -> None:
        """Wait until the queue is empty, and a little longer."""
        wait_until("nobody waits", lambda: operator.depth() == 0)
        time.sleep(SETTLE_S)

    def writes(self) -> Counter[str]:
        """Return the API writes so far, of all clients, by resource; at rest only the operator makes any."""

        async def ask() -> Counter[str]:
            async with self._api() as api:
                return await api.writes()

        return asyncio.run(ask())

    def applied(self) -> list[float]:
        """Return the seconds from the request for a job to its last pod's creation, one job after the other."""

        async def one(name: str) -> float:
            async with self._api() as api:
                began_s = time.time()
                await api.post(_path("team-0"), job(name, self.scale.pods))
            wait_until(name, lambda: self.cast.ask(f"since team-0/{name}")["pods"] >= self.scale.pods, pause_s=0.05)
            return float(self.cast.ask(f"since team-0/{name}")["at_s"]) - began_s

        taken = []
        for number in range(APPLIED):
            taken.append(asyncio.run(one(f"late-{number}")))
            time.sleep(1.0)
        return taken

    def new_job(self, name: str) -> dict[str, Any]:
        """Return a job like all the others."""
        return job(name, self.scale.pods)

    def asked_for_meanwhile(self) -> None:
        """Scale one job up while no operator leads."""

        async def scale() -> None:
            async with self._api() as api:
                await api.merge(f"{_path('team-0')}/job-0", {"spec": {"replicas": self.scale.pods + 1}})

        asyncio.run(scale())

    def in_charge(self) -> None:
        """Wait until the job is scaled."""
        wait_until("the job is scaled", lambda: self._pods_of_job_0() > self.scale.pods, pause_s=0.05)

    def _pods_of_job_0(self) -> int:
        return int(self.cast.ask("since team-0/job-0")["pods"])

    def _api(self) -> Api:
        return Api(self.server.url, self.server.certificate)


def _path(namespace: str) -> str:
    return f"{JOBS}/namespaces/{namespace}/elasticjobs"


def verdict(value: float, aim: float) -> str:
    """Return the aim, and whether it is missed."""
    return f"aim {aim:g}{'' if value <= aim else '  MISSED'}"


def run(options: argparse.Namespace, folder: Path) -> None:
    """Run all steps."""
    scale = Scale(options.jobs, options.pods)
    wrap = tuple(options.wrap.split()) if options.wrap else ()
    print(
        f"{platform.machine()}, Python {platform.python_version()}, {scale.jobs} jobs of {scale.pods} pods", flush=True
    )
    with stage(folder) as (server, etcd, cast):
        bench = Bench(server, cast, scale)
        targets = etcd.endpoint.targets[0]
        bare_jobs = options.bare_jobs or scale.jobs
        bare_s = bench.bare(bare_jobs) * scale.jobs / bare_jobs
        count = scale.jobs * scale.pods
        print(f"bare client loop      {bare_s:8.2f} s   {count / bare_s:.0f} pods/s", flush=True)
        operator = OperatorProcess(server, targets, folder, wrap)
        try:
            wait_until("the operator is ready", lambda: operator.answers("/readyz"), within_s=60.0)
            empty_mb = operator.rss_mb
            cpu_s = operator.cpu_s
            pods_s, jobs_s = bench.crowd(operator)
            ratio = pods_s / bare_s
            print(f"all pods Running      {pods_s:8.2f} s   ratio {ratio:.2f}   {verdict(ratio, PODS_AIM)}")
            print(f"all jobs Running      {jobs_s:8.2f} s   ratio {jobs_s / bare_s:.2f}")
            spent_s = operator.cpu_s - cpu_s
            print(f"its processor time    {spent_s:8.2f} s   {1000 * spent_s / count:.1f} ms a pod", flush=True)
            budget = min(WRITES_AIM, JOB_WRITES_AIM * scale.jobs)
            memory, cpu, writes = bench.steady(operator, options.steady_seconds)
            print(f"steady memory         {memory:8.0f} MB  {verdict(memory, MEMORY_AIM_MB)}   (empty: {empty_mb:.0f})")
            print(f"steady processor      {cpu:8.2f} %   {verdict(cpu, CPU_AIM)}")
            print(
                f"steady API writes     {writes:8.2f} /s  {verdict(writes, budget)}",
                flush=True,
            )
            taken = sorted(bench.applied())
            p50, worst = statistics.median(taken), taken[-1]
            print(
                f"apply → pods created  {p50:8.3f} s   {verdict(p50, APPLY_AIM_S)}   (worst of {APPLIED}: {worst:.3f})"
            )
            bench.quiet(operator)
            operator.kill()
            bench.asked_for_meanwhile()
            began_s, spent = time.monotonic(), ResourceUse()
            operator = OperatorProcess(server, targets, folder, wrap)
            bench.in_charge()
            charge_s = time.monotonic() - began_s
            wait_until("all looked at", lambda: operator.answers("/readyz") and operator.depth() == 0, pause_s=0.5)
            all_s = time.monotonic() - began_s
            print(f"                      {spent}; turns a job: {operator.turns() / scale.jobs:.1f}", flush=True)
            print(f"restart → in charge   {charge_s:8.2f} s   {verdict(charge_s, RESTART_AIM_S)}")
            print(f"restart → all seen    {all_s:8.2f} s   {verdict(all_s, RESTART_AIM_S)}", flush=True)
            if options.churn:
                rng = random.Random(options.seed)
                churn(bench, operator, options.churn, rng, acts_a_second=options.acts_a_second)
        finally:
            operator.stop()


def main() -> None:
    """Parse, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=1000)
    parser.add_argument("--pods", type=int, default=10)
    parser.add_argument("--bare-jobs", type=int, help="make the bare pods of so many jobs only, and extrapolate [all]")
    parser.add_argument("--steady-seconds", type=float, default=120.0)
    parser.add_argument("--churn", type=float, default=0.0, metavar="SECONDS", help="make jobs come and go for so long")
    parser.add_argument(
        "--acts-a-second", type=float, default=CHANGES_PER_SECOND, help="changes a second of the churn [%(default)s]"
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--wrap", default="", help="Python arguments before the operator's, to profile it")
    parser.add_argument("--keep", help="a folder for logs [a temporary one]")
    options = parser.parse_args()
    if options.keep:
        Path(options.keep).mkdir(parents=True, exist_ok=True)
        run(options, Path(options.keep))
        return
    with tempfile.TemporaryDirectory(prefix="elasticjob-bench-") as folder:
        run(options, Path(folder))


if __name__ == "__main__":
    main()
