"""One series of jobs: each is created, trained to its end under faults, checked and deleted, then the next begins.

A series never waits: `check` looks once and does what is due, so that many series run side by side. A violation of
the trainer, a failed job or a job without progress raises `JobBroken`.
"""

import json
import random
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from testing.kube.stack import KubeStack

TRAINER = Path(__file__).with_name("trainer.py")
MAX_REPLICAS = 3
_LIMIT_S = 300.0
"""Seconds: a job needs about 30 s without faults; ten times that means that it hangs."""


class JobBroken(Exception):
    """An invariant was broken; the message has all known details."""


@dataclass(slots=True)
class SoakJob:
    """A series of jobs. `now_s` of each call is one monotonic clock, in seconds."""

    rig: KubeStack
    number: int
    rng: random.Random
    steps: int
    step_s: float
    ended: int = 0
    """The number of jobs that were trained to their end."""
    rounds: int = 0
    restarts: int = 0
    node_losses: int = 0
    replacements: int = 0
    _since_s: float = 0.0
    _name: str = ""
    _deleting: bool = False
    _desired: dict[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Return the name of the present job; empty without one."""
        return "" if self._deleting else self._name

    @property
    def folder(self) -> Path:
        """Return the folder of its checkpoints."""
        return self.rig.folder / "checkpoints" / self._name

    def check(self, now_s: float, *, again: bool) -> bool:
        """Do what is due; return False when nothing is left to do. `again`: begin another job after the last one."""
        if not self._name:
            if again:
                self._begin(now_s)
            return again
        self._require_life(now_s)
        job = self.rig.job(self._name)
        if self._deleting:
            self._forget(job)
        elif (job.get("status") or {}).get("phase") == "Succeeded":
            self._end(job["status"])
        return True

    def scale(self, replicas: int) -> None:
        """Scale the job, as `kubectl scale` does."""
        self.rig.patch_job(self._name, {"replicas": replicas})

    def suspend(self, *, suspended: bool) -> None:
        """Suspend or resume the job, as a queueing system does."""
        self.rig.patch_job(self._name, {"suspend": suspended})

    def _begin(self, now_s: float) -> None:
        self._since_s, self._deleting = now_s, False
        self._name = f"soak-{self.number}-{self.ended}"
        command = [sys.executable, "-S", str(TRAINER), str(self.folder), str(self.steps), str(self.step_s)]
        spec = {
            "replicas": self.rng.randint(1, MAX_REPLICAS),
            "minReplicas": 1,
            "maxReplicas": MAX_REPLICAS,
            "maxRestarts": 10_000,
            "backoffLimit": 10_000,
            "nprocPerNode": self.rng.choice([1, 1, 2]),
            "lostPodTimeoutSeconds": 5,
            "agent": {"mode": "Provided", "reportPeriodSeconds": 5},
            "scaling": {"scaleUpDelaySeconds": 1},
            "gracefulShutdown": {"seconds": 2},
            "template": {"spec": {"containers": [{"name": "trainer", "image": "soak:1", "command": command}]}},
        }
        kind = {"apiVersion": "elasticjob.io/v1alpha1", "kind": "ElasticJob"}
        self.rig.create_job({**kind, "metadata": {"name": self._name}, "spec": spec})

    def _require_life(self, now_s: float) -> None:
        violation = self.folder / "violation"
        if violation.exists():
            raise JobBroken(f"{self._name}: {violation.read_text().strip()}")
        status = self.rig.status(self._name)
        if status.get("phase") == "Failed":
            raise JobBroken(f"{self._name} failed: {json.dumps(status)}")
        if now_s - self._since_s > _LIMIT_S:
            doing = "to be gone" if self._deleting else "to succeed"
            raise JobBroken(f"{self._name} took more than {_LIMIT_S:g} s {doing}: {json.dumps(status)}")

    def _end(self, status: dict[str, Any]) -> None:
        if not (self.folder / "result").exists():
            raise JobBroken(f"{self._name} succeeded, and no rank 0 wrote a result: {json.dumps(status)}")
        self.rounds += status["rendezvousRound"]
        self.restarts += status["restarts"]
        self.node_losses += status["nodeLosses"]
        self.replacements += status["podReplacements"]
        self.rig.delete_job(self._name)
        self._deleting = True

    def _forget(self, job: dict[str, Any]) -> None:
        if job or any(_is_of(pod, self._name) for pod in self.rig.pods()):
            return
        self.ended += 1
        self._name = ""


def _is_of(pod: dict[str, Any], name: str) -> bool:
    labels: dict[str, str] = pod["metadata"]["labels"]
    return labels.get("elasticjob.io/job-name") == name
