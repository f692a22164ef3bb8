"""The imports that one job has recorded: the first workers of a later job, and of a replaced pod, share them."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from elasticjob_api.keys import kept_profiles
from elasticjob_etcd.interface import KeyValue
from testing.kube.jobs import waiting_job
from testing.kube.stack import KubeStack

pytestmark = pytest.mark.kube
_SCRIPT = """
import decimal, email.mime.text, os, sys, time
import colorsys
while not os.path.exists(sys.argv[1]):
    time.sleep(0.02)
"""


def training(rig: KubeStack, name: str, **spec: Any) -> dict[str, Any]:
    """Return a job whose workers may start warm, and wait for a file of its own."""
    job = waiting_job(rig, name, replicas=1, nprocPerNode=2, **spec)
    job["spec"]["agent"] = {**job["spec"]["agent"], "warmStart": "Auto"}
    container = job["spec"]["template"]["spec"]["containers"][0]
    container["command"] = [sys.executable, str(rig.folder / "train.py"), str(rig.finish)]
    container["env"] = [{"name": "PYTHONDONTWRITEBYTECODE", "value": "1"}]
    return job


def start_of(rig: KubeStack, name: str, round_: int = 1) -> tuple[str, str]:
    """Wait for the start of this round's workers; return its kind and reason."""

    def shown() -> dict[str, Any]:
        status = rig.status(name)
        nodes = status.get("nodes") or [{}]
        return (nodes[0].get("start") or {}) if status.get("rendezvousRound") == round_ else {}

    start = rig.until(f"the start of round {round_} of {name}", shown, within_s=60)
    return start["kind"], start.get("reason", "")


def await_profile(rig: KubeStack, name: str) -> None:
    """Wait until an agent of this job has written its profile."""
    key = rig.keys(name).import_profile
    rig.until("an import profile", lambda: rig.etcd_range(key).kvs, within_s=60)


@pytest.fixture
def begun(rig: KubeStack) -> Path:
    """A stack with a script, a node and an operator; the file that ends all jobs."""
    (rig.folder / "train.py").write_text(_SCRIPT)
    rig.start_node()
    rig.start_operator()
    return rig.finish


def test_the_first_workers_of_a_later_job_are_warm(rig: KubeStack, begun: Path) -> None:
    rig.namespace.apply(training(rig, "first"))
    assert start_of(rig, "first") == ("Cold", "the first workers record their imports")
    await_profile(rig, "first")
    begun.touch()
    rig.phase("Succeeded", "first")
    kept = rig.until("a kept profile", lambda: rig.etcd_range(kept_profiles(rig.cluster_id)).kvs)
    assert len(kept) == 1
    begun.unlink()
    rig.namespace.kubectl("delete", "ejob", "first")
    rig.namespace.apply(training(rig, "second"))
    assert start_of(rig, "second") == ("Warm", "")
    begun.touch()
    rig.phase("Succeeded", "second")


def test_a_namespace_that_is_created_again_inherits_nothing(rig: KubeStack, begun: Path) -> None:
    rig.namespace.apply(training(rig, "first"))
    await_profile(rig, "first")
    begun.touch()
    rig.phase("Succeeded", "first")
    [kept] = rig.until("a kept profile", lambda: rig.etcd_range(kept_profiles(rig.cluster_id)).kvs)
    uid = json.loads(rig.namespace.kubectl("get", "namespace", rig.namespace.name, "-o", "json"))["metadata"]["uid"]
    assert uid in kept.key
    begun.unlink()
    _create_again(rig)
    rig.namespace.apply(training(rig, "second"))
    assert start_of(rig, "second") == ("Cold", "the first workers record their imports")
    begun.touch()
    rig.phase("Succeeded", "second")


def _create_again(rig: KubeStack) -> None:
    """Delete the namespace with all that is in it, as its controller does, and create one of the same name."""
    name = rig.namespace.name
    for kind in ("elasticjobs.elasticjob.io", "pods", "services", "events"):
        rig.namespace.kubectl("delete", kind, "--all", "--grace-period=1")
    rig.until("no pods", lambda: not rig.pod_names())
    rig.namespace.kubectl("delete", "namespace", name, "--wait=false")
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}, "spec": {"finalizers": []}}
    rig.namespace.kubectl("replace", "--raw", f"/api/v1/namespaces/{name}/finalize", "-f", "-", stdin=body)
    rig.until("no namespace", lambda: not _has_namespace(rig))
    rig.namespace.create()


def _has_namespace(rig: KubeStack) -> bool:
    return rig.namespace.server.kubectl("get", "namespace", rig.namespace.name).returncode == 0


def test_commands_of_any_length_and_script_do_not_stop_the_operator(rig: KubeStack, begun: Path) -> None:
    """Names, images and arguments are hashed: none of them is in a key of etcd."""
    names = [f"{'n' * 40}-{number}" for number in range(5)]
    words = ("ü" * 5_000, "\u202e/../\n\t", "$(PATH)", "x" * 5_000, "😀")
    for name, word in zip(names, words, strict=True):
        job = training(rig, name)
        container = job["spec"]["template"]["spec"]["containers"][0]
        container["image"], container["args"] = "example/trainer:1", [word]
        rig.namespace.apply(job)
    for name in names:
        await_profile(rig, name)
    begun.touch()
    for name in names:
        rig.phase("Succeeded", name)
    rig.until("five profiles", lambda: len(_kept(rig)) == len(names))
    assert all(kv.key.isascii() and len(kv.key) < 200 for kv in _kept(rig))


def _kept(rig: KubeStack) -> tuple[KeyValue, ...]:
    return rig.etcd_range(kept_profiles(rig.cluster_id)).kvs


def test_a_profile_that_its_job_has_forged_is_not_kept(rig: KubeStack, begun: Path) -> None:
    rig.namespace.apply(training(rig, "first"))
    await_profile(rig, "first")
    rig.etcd_put({rig.keys("first").import_profile: b"forged"})
    begun.touch()
    rig.phase("Succeeded", "first")
    assert rig.operator
    line = "its import profile was not kept for later jobs: it is malformed or too large"
    rig.until("a line of the log", lambda: line in (rig.folder / "operator.log").read_text())


def test_a_job_with_another_image_records_its_own_imports(rig: KubeStack, begun: Path) -> None:
    rig.namespace.apply(training(rig, "first"))
    await_profile(rig, "first")
    begun.touch()
    rig.phase("Succeeded", "first")
    rig.until("a kept profile", lambda: rig.etcd_range(kept_profiles(rig.cluster_id)).kvs)
    begun.unlink()
    other = training(rig, "second")
    other["spec"]["template"]["spec"]["containers"][0]["image"] = "example/trainer:2"
    rig.namespace.apply(other)
    assert start_of(rig, "second") == ("Cold", "the first workers record their imports")
    begun.touch()
    rig.phase("Succeeded", "second")


def test_the_first_workers_of_a_replacement_are_warm(rig: KubeStack, begun: Path) -> None:
    rig.namespace.apply(training(rig, "j"))
    assert start_of(rig, "j")[0] == "Cold"
    await_profile(rig, "j")
    [pod] = rig.pod_names()
    rig.namespace.kubectl("delete", "pod", pod, "--grace-period=1")
    assert start_of(rig, "j", 2) == ("Warm", "")
    begun.touch()
    rig.phase("Succeeded")
