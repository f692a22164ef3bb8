"""A job with `keep` on a real API server: its pods, its record, and what is remarked or refused."""

from typing import Any

import pytest

from elasticjob_api.records import SpecRecord, decode
from testing.kube.jobs import waiting_job
from testing.kube.stack import KubeStack

pytestmark = pytest.mark.kube


def keeping(rig: KubeStack, *, memory: str = "2Gi", mounts: tuple[str, ...] = (), **keep: Any) -> dict[str, Any]:
    """Return a job that keeps steps, with this memory limit and these mounts of its own."""
    job = waiting_job(rig, replicas=2, keep={"sizeLimit": "1Gi", **keep})
    spec = job["spec"]["template"]["spec"]
    spec["containers"][0]["resources"] = {"limits": {"memory": memory}}
    spec["containers"][0]["volumeMounts"] = [{"name": "own", "mountPath": path} for path in mounts]
    spec["volumes"] = [{"name": "own", "emptyDir": {}}]
    return job


def test_the_pods_have_a_memory_volume_and_the_agent_its_limits(rig: KubeStack) -> None:
    rig.start_operator()
    rig.create_job(keeping(rig, copies=0, bandwidth="64Mi", restoreTimeoutSeconds=9))
    rig.until("two pods", lambda: len(rig.pods()) == 2)
    pod = rig.pods()[0]
    volumes = {volume["name"]: volume.get("emptyDir") for volume in pod["spec"]["volumes"]}
    assert volumes["elasticjob-keep"] == {"medium": "Memory", "sizeLimit": "1Gi"}
    [container] = pod["spec"]["containers"]
    mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    env = {each["name"]: each.get("value") for each in container["env"]}
    assert mounts["elasticjob-keep"] == env["ELASTICJOB_KEEP_DIR"]
    limits = [env[f"ELASTICJOB_KEEP_{name}"] for name in ("SIZE_LIMIT", "COPIES", "BANDWIDTH", "RESTORE_TIMEOUT_S")]
    assert limits == ["1073741824", "0", "67108864", "9"]
    [record] = [kv.value for kv in rig.etcd_range(rig.keys().spec).kvs]
    assert decode(SpecRecord, record).keep_copies == 0


def test_a_memory_limit_that_is_not_above_the_volume_is_remarked_and_the_job_starts(rig: KubeStack) -> None:
    rig.start_operator()
    rig.create_job(keeping(rig, memory="1Gi"))
    rig.until("two pods", lambda: len(rig.pods()) == 2)
    rig.until("the event", lambda: "KeepTooSmall" in {reason for reason, _ in rig.events()})
    assert "memory limit of 1Gi" in rig.condition("KeepDegraded")["message"]


def test_a_template_with_a_mount_in_the_volume_is_refused_with_the_path(rig: KubeStack) -> None:
    rig.start_operator()
    rig.create_job(keeping(rig, mounts=("/var/run/elasticjob/keep/mine",)))
    rig.until("the refusal", lambda: rig.status().get("reason") == "InvalidSpec")
    assert "mountPath /var/run/elasticjob/keep/mine is the volume of spec.keep" in rig.status()["message"]
    assert rig.pods() == []


def test_nothing_is_left_of_a_deleted_job(rig: KubeStack) -> None:
    rig.start_operator()
    rig.create_job(keeping(rig))
    rig.until("two pods", lambda: len(rig.pods()) == 2)
    held = rig.keys().holdings(0, "0" * 8)
    rig.etcd_put({held: b"k1 1 - -"})
    rig.delete_job("j")
    rig.until("no pods", lambda: rig.pods() == [])
    rig.until("no keys", lambda: rig.etcd_keys() == [])
