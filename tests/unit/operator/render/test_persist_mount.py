"""The directory of persisted steps: in which volumes it may lie, and the cure where it may not."""

from typing import Any

import pytest

from elasticjob_api.spec import Keep
from elasticjob_operator.render.persist_mount import persist_errors
from testing.builders import job, template

CLAIM = {"persistentVolumeClaim": {"claimName": "c"}}
CURE = "mount a volume that all pods share, such as a PersistentVolumeClaim, at or above it"


def faults(*mounts: dict[str, Any], path: str = "/ckpt/steps", **volume: Any) -> list[str]:
    """Return the sentences about a job whose template mounts one volume, `v`, at these places."""
    made = template(volumeMounts=[{"name": "v", **mount} for mount in mounts])
    made["spec"]["volumes"] = [{"name": "v", **(volume or CLAIM)}]
    keep = Keep(size_limit="1Gi", persist_to=path)
    return [str(error) for error in persist_errors(job(template=made, keep=keep))]


@pytest.mark.parametrize("mount", ["/ckpt/steps", "/ckpt/steps/", "/ckpt", "/ckpt/", "/"])
def test_a_writable_volume_at_or_above_the_directory_is_accepted(mount: str) -> None:
    assert faults({"mountPath": mount}) == []


@pytest.mark.parametrize(
    "volume",
    [
        {"hostPath": {"path": "/mnt"}},
        {"nfs": {"server": "s", "path": "/"}},
        {"csi": {"driver": "d", "readOnly": False}},
        {"ofTomorrow": {}},
    ],
)
def test_any_volume_that_other_pods_may_see_is_accepted(volume: dict[str, Any]) -> None:
    assert faults({"mountPath": "/ckpt"}, **volume) == []


@pytest.mark.parametrize("mounts", [(), ("/ckp",), ("/ckpt/steps/deeper",), ("/ckpt-old", "/data")])
def test_a_directory_outside_all_volumes_is_refused_with_the_cure(mounts: tuple[str, ...]) -> None:
    [fault] = faults(*({"mountPath": path} for path in mounts))
    cause = "is /ckpt/steps, where the trainer container mounts no volume"
    assert fault == f"spec.keep.persistTo: {cause}; {CURE}"


def test_a_mount_that_is_read_only_is_refused() -> None:
    [fault] = faults({"mountPath": "/ckpt", "readOnly": True})
    assert "in volume v, which the trainer container mounts read-only; remove readOnly from that mount" in fault


@pytest.mark.parametrize(
    "volume",
    [{"persistentVolumeClaim": {"claimName": "c", "readOnly": True}}, {"nfs": {"path": "/", "readOnly": True}}],
)
def test_a_volume_that_is_read_only_is_refused(volume: dict[str, Any]) -> None:
    [fault] = faults({"mountPath": "/ckpt"}, **volume)
    assert "in volume v, which is read-only; remove readOnly from that volume" in fault


@pytest.mark.parametrize(
    ("volume", "cause"),
    [
        ({"emptyDir": {}}, "an emptyDir: no other pod sees it, and it goes with its pod"),
        ({"ephemeral": {}}, "a claim of its pod: no other pod sees it"),
        ({"configMap": {"name": "c"}}, "a ConfigMap, which cannot be written"),
        ({"projected": {"sources": []}}, "a projected volume, which cannot be written"),
    ],
)
def test_a_volume_of_one_pod_or_of_fixed_content_is_refused_with_the_cure(volume: dict[str, Any], cause: str) -> None:
    [fault] = faults({"mountPath": "/ckpt"}, **volume)
    assert (f"in volume v, {cause}" in fault, fault.endswith(CURE)) == (True, True)


def test_of_nested_mounts_the_innermost_counts() -> None:
    outer, inner = {"mountPath": "/ckpt"}, {"mountPath": "/ckpt/steps", "readOnly": True}
    assert "mounts read-only" in faults(outer, inner)[0]
    assert "mounts read-only" in faults(inner, outer)[0]
    assert faults({**outer, "readOnly": True}, {**inner, "readOnly": False}) == []


@pytest.mark.parametrize("path", ["/var/log/elasticjob/x", "/opt/elasticjob", "/var/run/elasticjob/etcd/x", "/dev/shm"])
def test_a_directory_of_the_operator_is_refused_though_a_volume_lies_above(path: str) -> None:
    [fault] = faults({"mountPath": "/"}, path=path)
    assert (", a directory of the operator; " in fault, fault.endswith(CURE)) == (True, True)


def test_a_job_that_persists_no_step_has_no_fault() -> None:
    assert list(persist_errors(job())) == []
    assert list(persist_errors(job(keep=Keep(size_limit="1Gi")))) == []
