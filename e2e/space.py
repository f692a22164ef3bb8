"""A namespace with its one job, in a user's steps: apply, wait, check, break, scale, delete.

A wait is `kubectl wait`, which watches, or follows a log; both have a deadline. Times are seconds of the machine's
clock, which all nodes of a kind cluster share.
"""

import json
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from e2e.cluster import OPERATORS, SYSTEM, Cluster
from e2e.programs import ProgramFailed, lines
from testing.kubectl_table import only_row
from testing.waiting import eventually

JOB = "digits"
_OF_JOB = f"--selector=elasticjob.io/job-name={JOB}"
_WAIT_S = 120.0
KINDS = "pods,services,poddisruptionbudgets"
"""All objects that the operator creates for a job."""

# A worker is found by its environment, as the job's author could: RANK is what torchrun sets.
_KILL = r"""
pid=$(grep -lzx "RANK=$0" /proc/[0-9]*/environ | head -n 1 | cut -d/ -f3)
date +%s.%N
kill -9 "$pid"
"""
_STAMP = r"\d{4}-\d\d-\d\dT"
_WORKERS = "grep -lz ^RANK= /proc/[0-9]*/environ | cut -d/ -f3"


@dataclass(frozen=True, slots=True)
class Space:
    """One namespace."""

    cluster: Cluster
    name: str

    def kubectl(self, *arguments: str, stdin: str = "") -> str:
        """Return the standard output of kubectl in this namespace."""
        return self.cluster.kubectl("-n", self.name, *arguments, stdin=stdin)

    def applied(self, manifest: Mapping[str, Any]) -> float:
        """Run `kubectl apply` for the job; return the time before."""
        moment = time.time()
        self.apply(manifest)
        return moment

    def apply(self, manifest: Mapping[str, Any]) -> None:
        """Run `kubectl apply` for the job."""
        self.kubectl("apply", "-f", "-", stdin=json.dumps(manifest))

    def job(self) -> dict[str, Any]:
        """Return the job as it is."""
        found: dict[str, Any] = json.loads(self.kubectl("get", "ejob", JOB, "-o", "json"))
        return found

    def status(self) -> dict[str, Any]:
        """Its status."""
        status: dict[str, Any] = self.job()["status"]
        return status

    def wait(self, **fields: object) -> dict[str, Any]:
        """Wait for each of these fields of the status, in this order; return the status then."""
        for field, value in fields.items():
            condition = f"--for=jsonpath={{.status.{field}}}={value}"
            try:
                self.kubectl("wait", f"ejob/{JOB}", condition, f"--timeout={_WAIT_S:g}s")
            except ProgramFailed as error:
                raise ProgramFailed(f"{error}\n{self._describe_state()}") from error
        return self.status()

    def _describe_state(self) -> str:
        """Return the objects, conditions and logs that a person would check first."""
        objects = self.kubectl("get", "ejob,pods", "-o", "wide")
        conditions = self.kubectl("get", "ejob", JOB, "-o", "jsonpath={.status.conditions}")
        logs = self.cluster.kubectl("logs", "-n", SYSTEM, *OPERATORS, "--tail=15")
        return f"{objects}\n{conditions}\n{logs}"

    def row(self, *options: str) -> dict[str, str]:
        """Return the job's row of `kubectl get ejob`, by column."""
        return only_row(self.kubectl("get", "ejob", *options))

    def objects(self, kinds: str) -> list[str]:
        """Return the names of the job's objects of these kinds, as kind/name."""
        return self.kubectl("get", kinds, _OF_JOB, "-o", "name").split()

    def log(self, pod: str, *, until: str = "", within_s: float = _WAIT_S) -> list[tuple[float, str]]:
        """Return the lines of a pod's log with their times: up to the first that matches `until`, or all so far."""
        if not until:
            return self._lines(pod, until, within_s)
        # The log of a container that has just started may end at once: then it is read again.
        what = f"{pod} logs {until!r}"
        return eventually(lambda: self._lines(pod, until, within_s), within_s=within_s, what=what, pause_s=0.5)

    def _lines(self, pod: str, until: str, within_s: float) -> list[tuple[float, str]]:
        """Return the lines; empty if the log ends before a line that matches `until`."""
        follow = ("--follow",) if until else ()
        found: list[tuple[float, str]] = []
        command = self.cluster.command("-n", self.name, "logs", pod, "--timestamps", *follow)
        with lines(*command, within_s=within_s) as coming:
            for line in coming:
                stamp, _, text = line.rstrip("\n").partition(" ")
                if not re.match(_STAMP, stamp):  # the kubelet's own sentence: it cannot follow this log now
                    break
                found.append((_moment(stamp), text))
                if until and re.search(until, text):
                    return found
        return [] if until else found

    def reached(self, step: int) -> None:
        """Wait until rank 0 has reported this step of its training."""
        self.log(self.status()["masterPod"], until=rf"^\[rank0\] step {step}/")

    def reached_more(self) -> None:
        """Wait until rank 0 has trained some more steps."""
        pod = self.status()["masterPod"]
        steps = [int(found[1]) for _, text in self.log(pod) if (found := re.match(r"\[rank0\] step (\d+)/", text))]
        self.log(pod, until=rf"^\[rank0\] step {steps[-1] + 30}/")

    def kill_worker(self, rank: int) -> float:
        """Send SIGKILL to this worker, inside its container; return the time."""
        status = self.status()
        per_node = status["worldSize"] // status["readyReplicas"]
        pod = pod_of(status, rank // per_node)
        return float(self.kubectl("exec", pod, "--", "sh", "-c", _KILL, str(rank)))

    def first_line_before_death(self, pod: str, *command: str) -> str:
        """Return the first line of a command that kills its container."""
        with lines(*self.cluster.command("-n", self.name, "exec", pod, "--", *command), within_s=_WAIT_S) as output:
            first = next(output)
            for _ in output:
                pass
        return first.strip()

    def delete_pod(self, pod: str) -> float:
        """Run `kubectl delete pod` without a wait for its end; return the time before."""
        moment = time.time()
        self.kubectl("delete", "pod", pod, "--wait=false")
        return moment

    def replaced(self, pod: str) -> dict[str, Any]:
        """Wait until all wanted nodes run, and none of them in this pod; return the status then."""

        def holds() -> dict[str, Any] | None:
            status = self.status()
            running = {node["podName"] for node in status["nodes"] if "rank" in node and node["state"] == "Running"}
            return status if len(running) == status["desiredReplicas"] and pod not in running else None

        found = eventually(holds, within_s=_WAIT_S, what=f"{pod} replaced")
        assert found is not None
        return found

    def suspend(self, value: bool) -> None:  # noqa: FBT001 -- the field's own value
        """Set `spec.suspend`."""
        self.kubectl("patch", f"ejob/{JOB}", "--type=merge", "-p", json.dumps({"spec": {"suspend": value}}))

    def delete_job(self) -> None:
        """Run `kubectl delete`, and wait until no object and no key of the job is left; the keys are deleted last."""
        uid = self.job()["metadata"]["uid"]
        self.kubectl("delete", "ejob", JOB)
        self.kubectl("wait", KINDS, _OF_JOB, "--for=delete", f"--timeout={_WAIT_S:g}s")
        eventually(lambda: not self.cluster.etcd_keys(uid), within_s=_WAIT_S, what=f"no key of {uid} in etcd")

    def workers(self) -> dict[str, list[int]]:
        """Return the processes of the workers, by pod: those that have a RANK."""
        return {name: self._workers_of(name) for name in sorted(pod["metadata"]["name"] for pod in self.pods())}

    def _workers_of(self, pod: str) -> list[int]:
        return sorted(int(pid) for pid in self.kubectl("exec", pod, "--", "sh", "-c", _WORKERS).split())

    def condition(self, type_: str) -> dict[str, Any]:
        """Return this condition of the job; empty if it has none of that type."""
        return next((found for found in self.status().get("conditions", ()) if found["type"] == type_), {})

    def counts(self, status: Mapping[str, Any] | None = None) -> tuple[int, int, int]:
        """Return the charged counts: rounds, restarts, node losses."""
        found = self.status() if status is None else status
        return found["rendezvousRound"], found["restarts"], found["nodeLosses"]

    def written_back(self, nodes: int) -> None:
        """Wait until a wiped etcd has the job again: its spec and state, and the keys of this many nodes."""
        uid = self.job()["metadata"]["uid"]

        def known() -> bool:
            parts = [key.partition(f"{uid}/c/")[2] for key in self.cluster.etcd_keys(uid)]
            return {"spec", "ctl/world"} <= set(parts) and sum(part.startswith("nodes/") for part in parts) == nodes

        eventually(known, within_s=_WAIT_S, what=f"etcd knows the job and its {nodes} nodes", pause_s=0.5)

    def nodes(self, status: Mapping[str, Any]) -> list[str]:
        """Return the cluster's nodes on which the job runs, in the order of their ranks."""
        places = {pod["metadata"]["name"]: pod["spec"]["nodeName"] for pod in self.pods()}
        ranked = sorted(status["nodes"], key=lambda node: int(node["rank"]))
        return [places[node["podName"]] for node in ranked]  # requires a current status

    def pods(self) -> list[dict[str, Any]]:
        """Return the job's pods as they are."""
        found: list[dict[str, Any]] = json.loads(self.kubectl("get", "pods", _OF_JOB, "-o", "json"))["items"]
        return found

    def pods_of_all(self) -> list[dict[str, Any]]:
        """Return the pods of all jobs in the namespace."""
        found: list[dict[str, Any]] = json.loads(self.kubectl("get", "pods", "-o", "json"))["items"]
        return found

    def running(self, round_: int) -> float:
        """Return the time at which the last node of this round, the current one, reported its running workers."""
        status = self.status()
        assert status["rendezvousRound"] == round_, status
        pods = [node["podName"] for node in status["nodes"] if "rank" in node]
        assert len(pods) == status["readyReplicas"], status
        line = rf"elasticjob-agent: round {round_}: .* are running"
        return max(self.log(pod, until=line)[-1][0] for pod in pods)


def pod_of(status: Mapping[str, Any], node_rank: int) -> str:
    """Return the pod of the node that has this rank."""
    return next(str(node["podName"]) for node in status["nodes"] if node.get("rank") == node_rank)


def _moment(stamp: str) -> float:
    """Return the seconds of 2026-11-21T05:21:46.672318761Z, of which datetime parses microseconds."""
    whole, _, fraction = stamp.removesuffix("Z").partition(".")
    return datetime.fromisoformat(f"{whole}+00:00").timestamp() + float(f"0.{fraction or 0}")
