"""Changes by a user while a job runs: size, suspension, a deleted pod; one round each, and no charge."""

import functools
import json
import os
import signal
from typing import Any

import psutil
import pytest

from elasticjob_api import constants
from testing.kube.jobs import waiting_job
from testing.kube.stack import KubeStack

pytestmark = pytest.mark.kube


def started(rig: KubeStack) -> dict[str, Any]:
    """A job of two or three nodes that runs its first round with two; its status.

    With fewer allowed, a survivor might run a round of its own before its new peer is there: agents are quicker than
    any operator.
    """
    rig.start_node()
    rig.start_operator()
    rig.namespace.apply(waiting_job(rig, replicas=2, minReplicas=2, maxReplicas=3))
    return rig.running(nodes=2, round_=1)


def pods_by_slot(status: dict[str, Any]) -> dict[str, str]:
    return {node["name"]: node["podName"] for node in status["nodes"]}


def charges(status: dict[str, Any]) -> dict[str, int]:
    return {name: status[name] for name in ("restarts", "nodeLosses", "podReplacements")}


def columns(rig: KubeStack) -> tuple[str, str, str, str]:
    row = rig.namespace.row("j")
    return row["PHASE"], row["READY"], row["DESIRED"], row["RESTARTS"]


NOTHING = {"restarts": 0, "nodeLosses": 0, "podReplacements": 0}


def seen_by_an_autoscaler(rig: KubeStack) -> tuple[int, list[str]]:
    """Return the pod count of the scale subresource, and the pods that its selector finds."""
    path = f"/apis/elasticjob.io/v1alpha1/namespaces/{rig.namespace.name}/elasticjobs/j/scale"
    status = json.loads(rig.namespace.kubectl("get", "--raw", path))["status"]
    found = rig.namespace.kubectl("get", "pods", "-l", status["selector"], "-o", "name").split()
    return status["replicas"], sorted(name.removeprefix("pod/") for name in found)


def test_scaling_up_and_down_takes_one_round_each_and_keeps_the_others(rig: KubeStack) -> None:
    two = pods_by_slot(started(rig))
    rig.namespace.kubectl("scale", "ejob", "j", "--replicas=3")
    three = rig.running(nodes=3, round_=2)
    assert columns(rig) == ("Running", "3", "3", "0")
    assert seen_by_an_autoscaler(rig) == (3, sorted(pods_by_slot(three).values()))
    assert pods_by_slot(three).items() > two.items()
    rig.namespace.kubectl("scale", "ejob", "j", "--replicas=2")
    again = rig.running(nodes=2, round_=3)
    assert columns(rig) == ("Running", "2", "2", "0")
    assert pods_by_slot(again) == two
    assert charges(again) == NOTHING
    rig.until("two pods", lambda: rig.pod_names() == sorted(two.values()))
    rig.finish.touch()
    assert charges(rig.phase("Succeeded")) == NOTHING


def test_the_selector_of_the_scale_selects_the_jobs_pods_all_and_only(rig: KubeStack) -> None:
    """An autoscaler reads metrics by this selector."""
    rig.start_operator()
    rig.create_job(waiting_job(rig, "other", replicas=2))
    rig.create_job(waiting_job(rig, replicas=2, minReplicas=1, maxReplicas=3))
    container = {"name": "c", "image": "i"}
    labels = {"elasticjob.io/job-name": "j", "elasticjob.io/slot": "0"}
    stranger = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "stranger", "labels": labels}}
    rig.namespace.kubectl("create", "-f", "-", stdin={**stranger, "spec": {"containers": [container]}})
    for replicas in (2, 3, 1):
        rig.patch_job("j", {"replicas": replicas})
        rig.until("the count", functools.partial(has_pods, rig, replicas))
        assert rig.selected(rig.scale()["status"]["selector"]) == [n for n in rig.pod_names() if n.startswith("j-")]


def has_pods(rig: KubeStack, replicas: int) -> bool:
    """Return whether the job has that many pods, in its status and in fact."""
    scale = rig.scale()
    mine = [name for name in rig.pod_names() if name.startswith("j-")]
    return {len(mine), scale["spec"]["replicas"], scale["status"].get("replicas")} == {replicas}


def test_suspending_frees_all_pods_and_resuming_continues_with_new_ones(rig: KubeStack) -> None:
    before = pods_by_slot(started(rig))
    rig.namespace.patch("j", {"spec": {"suspend": True}})
    rig.phase("Suspended")
    rig.until("no pod", lambda: not rig.pods())
    rig.until("no node", lambda: rig.status()["replicas"] == 0)
    assert columns(rig) == ("Suspended", "0", "2", "0")
    rig.namespace.patch("j", {"spec": {"suspend": False}})
    after = rig.running(nodes=2, round_=2)
    assert columns(rig) == ("Running", "2", "2", "0")
    assert charges(after) == NOTHING
    assert not set(pods_by_slot(after).values()) & set(before.values())


def test_a_deleted_pod_is_replaced_under_a_new_name_in_the_next_round(rig: KubeStack) -> None:
    before = pods_by_slot(started(rig))
    rig.namespace.kubectl("delete", "pod", before["j-0"], "--wait=false")
    after = rig.running(nodes=2, round_=2)
    replaced = pods_by_slot(after)
    assert (replaced["j-0"] != before["j-0"], replaced["j-1"]) == (True, before["j-1"])
    assert {node["name"]: node["rank"] for node in after["nodes"]} == {"j-0": 0, "j-1": 1}
    assert charges(after) == NOTHING


def agent_of(pid: int) -> int:
    """Return the agent that started a worker."""
    return next(p.pid for p in psutil.Process(pid).parents() if any("elasticjob-agent" in w for w in p.cmdline()))


def test_a_pod_whose_agent_is_killed_counts_as_a_pod_failure_and_a_node_loss(rig: KubeStack) -> None:
    before = pods_by_slot(started(rig))
    pid, pod = rig.pids(rig.keys())[1]
    os.kill(agent_of(pid), signal.SIGKILL)
    after = rig.running(nodes=2, round_=2)
    assert (pod, pods_by_slot(after)["j-0"]) == (before["j-1"], before["j-0"])
    assert pod not in pods_by_slot(after).values()
    assert charges(after) == {"restarts": 0, "nodeLosses": 1, "podReplacements": 1}
    counted = "exit code 137; 1 failure counted against backoffLimit, 5 more failed pods may be replaced"
    assert ("PodReplaced", f"pod {pod} is replaced: {counted}") in rig.events()


def test_a_recreated_job_of_the_same_name_begins_from_nothing(rig: KubeStack) -> None:
    before = pods_by_slot(started(rig))
    rig.namespace.kubectl("delete", "ejob", "j", "--wait=false")
    rig.namespace.apply(waiting_job(rig, replicas=2, minReplicas=2, maxReplicas=3))
    after = rig.running(nodes=2, round_=1)
    assert not set(pods_by_slot(after).values()) & set(before.values())
    assert charges(after) == NOTHING
    rig.until("only the new pods", lambda: rig.pod_names() == sorted(pods_by_slot(after).values()))


def test_the_status_of_an_earlier_job_of_the_same_name_is_ignored(rig: KubeStack) -> None:
    """A status write has no precondition: a late one of a deleted job may reach its successor."""
    rig.namespace.apply(waiting_job(rig))
    ended = {"type": "Complete", "status": "True", "reason": "AllWorkersSucceeded", "message": ""}
    late = {"phase": "Succeeded", "selector": "elasticjob.io/job-uid=another", "restarts": 2}
    conditions = [{**ended, "lastTransitionTime": "2026-01-02T03:04:05Z"}]
    rig.namespace.patch("j", {"status": {**late, "conditions": conditions}}, "--subresource=status")
    rig.start_node()
    rig.start_operator()
    assert charges(rig.running(nodes=1, round_=1)) == NOTHING


def managers(obj: dict[str, Any]) -> set[str]:
    return {entry["manager"] for entry in obj["metadata"]["managedFields"]}


def test_only_the_reconciler_writes_jobs_pods_and_events(rig: KubeStack) -> None:
    started(rig)
    job = rig.job()
    assert "finalizers" not in job["metadata"]
    assert set(job["metadata"]["annotations"]) == {"kubectl.kubernetes.io/last-applied-configuration"}
    assert managers(job) == {"kubectl-client-side-apply", "elasticjob-operator", "elasticjob-operator-claim"}
    for pod in rig.pods():
        assert set(pod["metadata"]["annotations"]) == {constants.ANNOTATION_INSTALLATION}
        assert "finalizers" not in pod["metadata"]
    events = json.loads(rig.namespace.kubectl("get", "events", "-o", "json"))["items"]
    assert {event["source"]["component"] for event in events} == {"elasticjob-operator"}


def dead_node(rig: KubeStack, name: str) -> None:
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}
    rig.namespace.kubectl("create", "-f", "-", stdin=node)  # no kubelet ever reports that it is ready


def test_a_pod_that_is_stuck_on_a_dead_node_is_deleted_by_force(rig: KubeStack) -> None:
    rig.start_operator()
    rig.namespace.apply(waiting_job(rig, stuckPodTimeoutSeconds=1, gracefulShutdown={"seconds": 0}))
    [name] = rig.until("a pod", rig.pod_names)
    node = f"dead-{rig.namespace.name}"
    dead_node(rig, node)
    rig.bind(name, node)
    rig.namespace.kubectl("delete", "pod", name, "--wait=false", "--grace-period=1")
    rig.until("gone", lambda: name not in {pod["metadata"]["name"] for pod in rig.pods()})
    said = f"pod {name} was deleted by force: its node {node} is not ready"
    rig.until("the event", lambda: ("PodForceDeleted", said) in rig.events())
