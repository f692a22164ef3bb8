"""Random concurrent histories of jobs on a real API server, and the expected final state of each.

There are no agents. Pods are created, fail and are deleted by their statuses, on which only the operator's decisions
depend. `expected` is the state that an operator without a crash would reach.
"""

import random
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from testing.kube.jobs import waiting_job
from testing.kube.stack import KubeStack

MOST = 4
STEPS = 4


@dataclass(slots=True)
class History:
    """One job; `rng` chooses its events."""

    rig: KubeStack
    name: str
    rng: random.Random
    replicas: int = 2
    suspended: bool = False
    failed: int = 0
    told: list[str] = field(default_factory=list)

    def begin(self) -> None:
        """Create the job."""
        spec = {"minReplicas": 1, "maxReplicas": MOST, "backoffLimit": 99}
        self.rig.create_job(waiting_job(self.rig, self.name, replicas=self.replicas, **spec))

    def step(self) -> None:
        """Cause one event; the job is in its expected state before, so the next one is known."""
        what = self.rng.choice(["scale", "suspend", "fail", "delete", "nothing"])
        self.told.append(what)
        pods = [pod["metadata"]["name"] for pod in self.live_pods()]
        if what == "scale":
            self.replicas = self.rng.randint(1, MOST)
            self.rig.patch_job(self.name, {"replicas": self.replicas})
        elif what == "suspend":
            self.suspended = not self.suspended
            self.rig.patch_job(self.name, {"suspend": self.suspended})
        elif what == "fail" and pods:
            self.failed += 1
            self.rig.fail_pod(self.rng.choice(pods))
        elif what == "delete" and pods:
            self.rig.delete_pod(self.rng.choice(pods))

    def live_pods(self) -> list[dict[str, Any]]:
        """Return its pods that have not failed and are not terminating."""
        return [pod for pod in self.pods() if is_live(pod)]

    def pods(self) -> list[dict[str, Any]]:
        """Return all its pods."""
        label = "elasticjob.io/job-name"
        return [pod for pod in self.rig.pods() if pod["metadata"]["labels"][label] == self.name]

    @property
    def expected(self) -> dict[str, Any]:
        """Return the expected state at rest."""
        slots = 0 if self.suspended else self.replicas
        return {"pods": slots, "terminating": 0, "slots": Counter(map(str, range(slots))), "counted": True}

    def standing(self) -> dict[str, Any]:
        """Return the current state; failed pods may remain for their logs, and those that fail together count once."""
        pods = self.pods()
        live = [pod for pod in pods if is_live(pod)]
        counted = self.rig.status(self.name).get("podReplacements", 0)
        return {
            "pods": len(live),
            "terminating": sum("deletionTimestamp" in pod["metadata"] for pod in pods),
            "slots": Counter(pod["metadata"]["labels"]["elasticjob.io/slot"] for pod in live),
            "counted": bool(self.failed) <= counted <= self.failed,
        }


def is_live(pod: dict[str, Any]) -> bool:
    """Return whether the pod may run and is not terminating."""
    return "deletionTimestamp" not in pod["metadata"] and pod["status"].get("phase") != "Failed"
