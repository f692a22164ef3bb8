"""Many jobs of the largest size that an API server stores, with frequent changes: the operator's memory is bounded."""

import time
from pathlib import Path
from typing import Any

import pytest

from testing.kube.jobs import waiting_job
from testing.kube.stack import KubeStack

pytestmark = [pytest.mark.kube, pytest.mark.timeout(300)]

JOBS = 60
TEXT = "😀" + "x" * 1_350_000
"""A text of the largest size that etcd accepts. Python needs four bytes for each character with it."""
FIELDS = 11_000
"""A list of small objects, which use twenty times the memory of their text."""
MOST_MIB = 256
"""Half of the chart's limit."""


def large_job(rig: KubeStack, name: str, hole: Any) -> dict[str, Any]:
    """Create a suspended job with this in its template."""
    job = waiting_job(rig, name, suspend=True)
    job["spec"]["template"]["spec"]["hole"] = hole
    return job


def peak_mib(rig: KubeStack) -> int:
    """Return the operator's peak memory."""
    assert rig.operator is not None
    status = Path(f"/proc/{rig.operator.pid}/status").read_text()
    return next(int(line.split()[1]) >> 10 for line in status.splitlines() if line.startswith("VmHWM"))


def test_a_new_operator_survives_dozens_of_jobs_of_the_largest_size(rig: KubeStack) -> None:
    for number in range(JOBS):
        rig.create_job(large_job(rig, f"large-{number}", TEXT))
    rig.create_job(waiting_job(rig, "good", replicas=2))
    rig.start_operator()
    rig.until("pods of the good job", lambda: len(rig.pod_names()) == 2, within_s=120)
    refusal = "spec: has more than 256 KiB of text; keep scripts and data in a ConfigMap"
    rig.until("a refusal", lambda: refusal in status_message(rig, "large-0"), within_s=120)
    assert peak_mib(rig) < MOST_MIB


def status_message(rig: KubeStack, name: str) -> str:
    """Return the status message of the job."""
    message: str = rig.condition("Accepted", name).get("message", "")
    return message


def test_a_flood_of_changes_of_a_large_job_neither_fills_the_memory_nor_delays_others(rig: KubeStack) -> None:
    rig.create_job(waiting_job(rig, "flooded", suspend=True))
    rig.start_operator()
    rig.until("a word", lambda: rig.status("flooded"))
    end_s = time.monotonic() + 15.0
    holes = [large_job(rig, "flooded", TEXT + more)["spec"]["template"] for more in "ab"]
    rounds = 0
    while time.monotonic() < end_s or rounds <= 5:  # on a busy machine few changes fit into that time
        rig.patch_job("flooded", {"template": holes[rounds % 2]})
        rounds += 1
    rig.create_job(waiting_job(rig, "good", replicas=2))
    rig.until("pods of the good job", lambda: len(rig.pod_names()) == 2, within_s=60)
    assert peak_mib(rig) < MOST_MIB


def test_a_running_job_whose_spec_becomes_too_large_keeps_running(
    rig: KubeStack,
) -> None:
    rig.start_operator()
    rig.create_job(waiting_job(rig, "grown", replicas=2))
    before = rig.until("its pods", lambda: len(rig.pod_names()) == 2 and rig.pod_names())
    huge = large_job(rig, "grown", [{}] * FIELDS)["spec"]["template"]
    rig.patch_job("grown", {"suspend": True, "template": huge})
    rig.until("a refusal", lambda: "fields and items" in status_message(rig, "grown"))
    assert rig.pod_names() == before
    smaller = {"template": {"spec": {"hole": None}}, "replicas": 1, "minReplicas": 1}
    rig.patch_job("grown", {"suspend": False, **smaller})
    rig.until("one of its pods", lambda: len(rig.pod_names()) == 1 and set(rig.pod_names()) < set(before))
    rig.until("no refusal", lambda: rig.condition("Accepted", "grown")["status"] == "True")
    rig.patch_job("grown", {"suspend": True, "template": huge})
    rig.until("a refusal", lambda: "fields and items" in status_message(rig, "grown"))
    rig.delete_job("grown")
    rig.until("no pod", lambda: not rig.pods())


def test_jobs_beyond_a_namespaces_share_of_memory_are_refused_until_memory_is_free(rig: KubeStack) -> None:
    rig.start_operator("--jobs-memory", str(3 << 20))
    refusal = f"exceeds the operator's memory for namespace {rig.namespace.name}"
    rig.create_job(large_job(rig, "first", [{"a": {}}] * 4_000))
    rig.phase("Suspended", "first")
    rig.create_job(large_job(rig, "second", [{"a": {}}] * 4_000))
    rig.until("a refusal", lambda: refusal in status_message(rig, "second"))
    rig.delete_job("first")
    rig.until("its end", lambda: not rig.job("first"))
    rig.patch_job("second", {"maxRestarts": 1})
    rig.phase("Suspended", "second")
    rig.until("no refusal", lambda: rig.condition("Accepted", "second")["status"] == "True")


def test_a_running_job_over_the_quota_of_a_new_operator_can_be_suspended_and_deleted(
    rig: KubeStack,
) -> None:
    rig.start_operator()
    for name in ("suspended", "deleted"):
        rig.create_job(waiting_job(rig, name, replicas=1))
    rig.until("their pods", lambda: len(rig.pod_names()) == 2)
    rig.until("their statuses", lambda: all(rig.status(name).get("startTime") for name in ("suspended", "deleted")))
    rig.kill_operator()
    rig.start_operator("--jobs-memory", "1")
    refusal = "exceeds the operator's memory"
    rig.until(
        "two refusals",
        lambda: refusal in status_message(rig, "suspended") and refusal in status_message(rig, "deleted"),
    )
    assert len(rig.pod_names()) == 2
    rig.patch_job("suspended", {"suspend": True})
    rig.phase("Suspended", "suspended")
    rig.delete_job("deleted")
    rig.until("no pod", lambda: not rig.pods())
    rig.patch_job("suspended", {"suspend": False})
    rig.until("a refusal", lambda: rig.condition("Accepted", "suspended")["status"] == "False")
