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


@pytest.mark.parametrize(
    ("keep", "linger_s"),
    [({"copies": 0}, 11), ({"sizeLimit": "150M"}, 2), ({"sizeLimit": "1Gi"}, 11), ({"sizeLimit": "100Gi"}, 30)],
)
def test_the_grace_of_a_pod_has_the_time_to_copy_its_volume_once(
    rig: KubeStack, keep: dict[str, Any], linger_s: int
) -> None:
    rig.start_operator()
    rig.create_job(keeping(rig, **keep))
    rig.until("two pods", lambda: len(rig.pods()) == 2)
    assert {pod["spec"]["terminationGracePeriodSeconds"] for pod in rig.pods()} == {5 + 10 + linger_s}


def test_a_namespace_with_the_restricted_standard_takes_the_pods_and_their_security_context_is_the_templates(
    rig: KubeStack,
) -> None:
    rig.label_namespace({"pod-security.kubernetes.io/enforce": "restricted"})
    rig.start_operator()
    job = keeping(rig)
    of_pod = {"runAsNonRoot": True, "runAsUser": 1000, "fsGroup": 2000, "seccompProfile": {"type": "RuntimeDefault"}}
    of_container = {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": True,
    }
    job["spec"]["template"]["spec"]["securityContext"] = of_pod
    job["spec"]["template"]["spec"]["containers"][0]["securityContext"] = of_container
    rig.create_job(job)
    rig.until("two pods", lambda: len(rig.pods()) == 2)
    spec = rig.pods()[0]["spec"]
    assert spec["securityContext"] == of_pod
    [container] = spec["containers"]
    assert container["securityContext"] == of_container
    mounts = {mount["name"]: mount.get("readOnly") for mount in container["volumeMounts"]}
    assert mounts["elasticjob-keep"] is None


def test_a_limit_range_changes_the_container_and_not_the_volume(rig: KubeStack) -> None:
    limits = [{"type": "Container", "default": {"memory": "3Gi"}, "defaultRequest": {"memory": "2Gi"}}]
    rig.create("limitranges", {"metadata": {"name": "defaults"}, "spec": {"limits": limits}})
    rig.start_operator()
    job = keeping(rig)
    del job["spec"]["template"]["spec"]["containers"][0]["resources"]
    rig.create_job(job)
    rig.until("two pods", lambda: len(rig.pods()) == 2)
    spec = rig.pods()[0]["spec"]
    assert spec["containers"][0]["resources"] == {"limits": {"memory": "3Gi"}, "requests": {"memory": "2Gi"}}
    [volume] = [volume for volume in spec["volumes"] if volume["name"] == "elasticjob-keep"]
    assert volume["emptyDir"] == {"medium": "Memory", "sizeLimit": "1Gi"}


def test_a_memory_limit_that_is_not_above_the_volume_is_remarked_and_the_job_starts(rig: KubeStack) -> None:
    rig.start_operator()
    rig.create_job(keeping(rig, memory="1Gi"))
    rig.until("two pods", lambda: len(rig.pods()) == 2)
    rig.until("the event", lambda: "KeepTooSmall" in {reason for reason, _ in rig.events()})
    assert "memory limit of 1Gi" in rig.condition("KeepDegraded")["message"]


def test_more_copies_than_other_nodes_are_remarked_and_the_job_starts(rig: KubeStack) -> None:
    rig.start_operator()
    rig.create_job(keeping(rig, copies=2))
    rig.until("two pods", lambda: len(rig.pods()) == 2)
    rig.until("the event", lambda: "KeepDegraded" in {reason for reason, _ in rig.events()})
    condition = rig.condition("KeepDegraded")
    assert condition["reason"] == "TooFewNodes"
    assert "a job of at most 2 nodes has 1 other; set it to 1, or raise spec.maxReplicas" in condition["message"]


def test_a_template_with_a_mount_in_the_volume_is_refused_with_the_path(rig: KubeStack) -> None:
    rig.start_operator()
    rig.create_job(keeping(rig, mounts=("/var/run/elasticjob/keep/mine",)))
    rig.until("the refusal", lambda: rig.status().get("reason") == "InvalidSpec")
    assert "mountPath /var/run/elasticjob/keep/mine is the volume of spec.keep" in rig.status()["message"]
    assert rig.pods() == []


def persisting(rig: KubeStack, volume: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """Return a job that persists steps in a volume of its template, mounted at /ckpt."""
    job = keeping(rig, persistTo="/ckpt/steps", **fields)
    spec = job["spec"]["template"]["spec"]
    spec["containers"][0]["volumeMounts"] = [{"name": "shared", "mountPath": "/ckpt"}]
    spec["volumes"] = [{"name": "shared", **volume}]
    return job


def test_the_agent_of_a_job_that_persists_steps_has_the_directory_in_a_mounted_claim(rig: KubeStack) -> None:
    rig.start_operator()
    claim = {"persistentVolumeClaim": {"claimName": "checkpoints"}}
    rig.create_job(persisting(rig, claim, persistEverySeconds=60, persistKeep=3, resume=False))
    rig.until("two pods", lambda: len(rig.pods()) == 2)
    [container] = rig.pods()[0]["spec"]["containers"]
    env = {each["name"]: each.get("value") for each in container["env"]}
    found = [env[f"ELASTICJOB_KEEP_{name}"] for name in ("PERSIST_TO", "PERSIST_EVERY_S", "PERSIST_KEEP", "RESUME")]
    assert found == ["/ckpt/steps", "60", "3", "0"]
    mounts = {mount["name"]: mount for mount in container["volumeMounts"]}
    assert (mounts["shared"]["mountPath"], mounts["shared"].get("readOnly")) == ("/ckpt", None)


@pytest.mark.parametrize(
    ("mount", "volume", "why"),
    [
        ({"mountPath": "/data"}, {"hostPath": {"path": "/mnt"}}, "where the trainer container mounts no volume; mount"),
        ({"mountPath": "/ckpt"}, {"emptyDir": {}}, "in volume shared, an emptyDir: no other pod sees it"),
        (
            {"mountPath": "/ckpt", "readOnly": True},
            {"hostPath": {"path": "/mnt"}},
            "in volume shared, which the trainer container mounts read-only; remove readOnly from that mount",
        ),
    ],
)
def test_a_job_that_cannot_persist_steps_where_it_wants_is_refused_with_the_cure(
    rig: KubeStack, mount: dict[str, Any], volume: dict[str, Any], why: str
) -> None:
    rig.start_operator()
    job = persisting(rig, volume)
    job["spec"]["template"]["spec"]["containers"][0]["volumeMounts"] = [{"name": "shared", **mount}]
    rig.create_job(job)
    rig.until("the refusal", lambda: rig.status().get("reason") == "InvalidSpec")
    assert f"spec.keep.persistTo: is /ckpt/steps, {why}" in rig.status()["message"]
    assert (rig.condition("Accepted")["status"], rig.pods()) == ("False", [])
    assert "InvalidSpec" in {reason for reason, _ in rig.events()}


def test_nothing_is_left_of_a_deleted_job(rig: KubeStack) -> None:
    rig.start_operator()
    rig.create_job(keeping(rig))
    rig.until("two pods", lambda: len(rig.pods()) == 2)
    held = rig.keys().holdings(0, "0" * 8)
    rig.etcd_put({held: b"k1 1 - -"})
    rig.delete_job("j")
    rig.until("no pods", lambda: rig.pods() == [])
    rig.until("no keys", lambda: rig.etcd_keys() == [])
