"""Manifests and pod statuses of an attacker or a bug: the operator continues, and handles all other jobs.

Random mutations of a whole job and of a pod's status, through a real API server, which refuses most of them; by
night ten thousand. After each batch a good job must get its pods from the same operator process.
"""

import copy
import json
import random
import time
import urllib.error
from pathlib import Path
from typing import Any

import pytest
import yaml

from testing.hostile_keys import HOSTILE_KEYS
from testing.kube.jobs import waiting_job
from testing.kube.stack import KubeStack
from testing.mutations import mutate

LONGEST_S = 900.0
pytestmark = [pytest.mark.kube, pytest.mark.timeout(LONGEST_S + 60)]

FULL: dict[str, Any] = yaml.safe_load((Path(__file__).parents[3] / "testing" / "kube" / "full-job.yaml").read_text())
MOST_REPLICAS = 20
"""A job with 65,535 pods would get them, or as many as its quota allows; not on this machine."""
STANDSTILL_S = 60.0
"""Seconds without any response after which the operator counts as stopped; a busy machine only makes it slow."""
POD_STATUS: dict[str, Any] = {
    "phase": "Running",
    "reason": "Evicted",
    "message": "why",
    "podIP": "10.0.0.1",
    "startTime": "2026-01-01T00:00:00Z",
    "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z", "reason": "x"}],
    "containerStatuses": [
        {
            "name": "trainer",
            "image": "i",
            "imageID": "i",
            "ready": True,
            "restartCount": 0,
            "state": {"terminated": {"exitCode": 137, "reason": "OOMKilled", "message": "m", "signal": 9}},
        }
    ],
    "initContainerStatuses": [
        {
            "name": "elasticjob-agent",
            "image": "i",
            "imageID": "i",
            "ready": False,
            "restartCount": 3,
            "state": {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}},
        }
    ],
}


def hostile(rng: random.Random, number: int) -> dict[str, Any]:
    """Return a randomly mutated job, with a name of its own if the mutation left one."""
    base = copy.deepcopy(FULL)
    base["metadata"]["name"] = f"m{number}"
    base["spec"] |= {"suspend": rng.random() < 0.3, "replicas": 2, "ttlSecondsAfterFinished": 1}
    if rng.random() < 0.5:
        del base["spec"]["replicaStep"]
    made: dict[str, Any] = mutate(base, rng, times=rng.randint(1, 3))
    return made


def accepted(rig: KubeStack, manifest: Any) -> bool:
    """Return whether the API server accepted the manifest."""
    try:
        wanted = json.loads(json.dumps(manifest, allow_nan=False))
        if isinstance(replicas := wanted["spec"].get("replicas"), int) and replicas > MOST_REPLICAS:
            return False
        rig.create_job(wanted)
    except (KeyError, TypeError, AttributeError, UnicodeEncodeError):
        return False
    except urllib.error.HTTPError as error:
        if error.code >= 500:
            raise
        return False
    return True


class Standstill:
    """Fails if the observed state is unchanged for too long; a busy machine does not fail it."""

    def __init__(self) -> None:
        self._seen: object = None
        self._since_s = time.monotonic()

    def require_change(self, seen: object) -> None:
        """Raise AssertionError if the state is unchanged for longer than a busy machine can explain."""
        if seen != self._seen:
            self._seen, self._since_s = seen, time.monotonic()
        still_s = time.monotonic() - self._since_s
        assert still_s < STANDSTILL_S, f"nothing has come from the operator for {still_s:.0f} s"


def require_service(rig: KubeStack, name: str) -> None:
    """Check that a good job gets its pods, from the same process, without an unhandled error."""
    rig.create_job(waiting_job(rig, name, replicas=2))
    standstill = Standstill()

    def has_its_pods() -> bool:
        pods = rig.pod_names()
        assert rig.operator is not None
        standstill.require_change((len(pods), len(rig.operator.text())))
        return sum(pod.startswith(f"{name}-") for pod in pods) == 2

    rig.until(f"pods of {name}", has_its_pods, within_s=LONGEST_S)
    rig.delete_job(name)
    assert rig.operator is not None
    assert rig.operator.running
    assert "Traceback" not in rig.operator.text()


@pytest.mark.parametrize(
    ("seed", "count"), [(0, 150), *(pytest.param(seed, 500, marks=pytest.mark.nightly) for seed in range(1, 21))]
)
def test_mutated_manifests_do_not_stop_the_operator(rig: KubeStack, seed: int, count: int) -> None:
    rng = random.Random(seed)
    rig.start_operator()
    taken = [n for n in range(count) if accepted(rig, hostile(rng, n))]
    assert taken, "the API server refused all of them: nothing was tried"
    require_service(rig, "good")


def test_mutated_pod_statuses_do_not_stop_the_operator(rig: KubeStack) -> None:
    rng = random.Random(0)
    rig.start_operator()
    rig.create_job(waiting_job(rig, replicas=2, minReplicas=1, backoffLimit=10_000))
    told = 0
    for _ in range(150):
        pods = rig.until("pods", rig.pod_names)
        told += rig.put_status(rng.choice(pods), mutate(POD_STATUS, rng, times=rng.randint(1, 2)))
    assert told > 0, "the API server refused all of them: nothing was tried"
    require_service(rig, "good")


def test_a_job_of_the_largest_size_is_refused_and_affects_no_other(rig: KubeStack) -> None:
    rig.start_operator()
    large = waiting_job(rig, "large", replicas=2)
    trainer = large["spec"]["template"]["spec"]["containers"][0]
    trainer["env"] = [{"name": f"V{n}", "value": "x" * 100_000} for n in range(14)]
    assert accepted(rig, large)
    rig.until("a sentence", lambda: "has more than 256 KiB of text" in rig.status("large").get("message", ""))
    require_service(rig, "good")


def test_hostile_keys_of_a_job_stop_neither_a_running_operator_nor_the_next_one(rig: KubeStack) -> None:
    rig.start_operator()
    rig.create_job(waiting_job(rig, "hostile"))
    rig.until("its map", lambda: rig.slots(rig.keys("hostile")))
    rig.etcd_put({f"{rig.keys('hostile').prefix}{key}": b"x" for key in HOSTILE_KEYS})
    require_service(rig, "good")
    rig.kill_operator()
    rig.start_operator()
    require_service(rig, "better")


def create_text(rig: KubeStack, manifest: dict[str, Any], hole: str) -> None:
    """Create a job whose template has the JSON text `hole`, which Python could not write."""
    manifest["spec"]["template"]["spec"]["hole"] = "@"
    text = json.dumps(manifest).replace('"@"', hole)
    file = rig.folder / "manifest.json"
    file.write_text(text)
    path = f"/apis/elasticjob.io/v1alpha1/namespaces/{rig.namespace.name}/elasticjobs"
    rig.namespace.kubectl("create", "--raw", path, "-f", str(file))


@pytest.mark.parametrize("levels", [200, 9000])
def test_a_job_nested_as_deeply_as_an_api_server_stores_stops_no_operator(rig: KubeStack, levels: int) -> None:
    rig.start_operator()
    create_text(rig, waiting_job(rig, "deep"), "[" * levels + "]" * levels)
    require_service(rig, "good")
    rig.kill_operator()
    rig.start_operator()
    require_service(rig, "better")

    def is_refused() -> bool:
        return "make it flatter" in rig.namespace.kubectl("get", "ejob", "deep", "-o", "jsonpath={.status.message}")

    rig.until("the reason in the status", is_refused, within_s=LONGEST_S)


def test_a_job_with_a_million_million_gpus_stops_no_operator(rig: KubeStack) -> None:
    rig.start_operator()
    greedy = waiting_job(rig, "greedy")
    del greedy["spec"]["nprocPerNode"]
    greedy["spec"]["template"]["spec"]["containers"][0]["resources"] = {"limits": {"nvidia.com/gpu": "1" + 12 * "0"}}
    rig.create_job(greedy)
    rig.until("a sentence", lambda: "more than 1024 GPUs" in rig.status("greedy").get("message", ""))
    require_service(rig, "good")
