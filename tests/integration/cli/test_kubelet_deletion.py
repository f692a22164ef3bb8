"""The end of deleted pods."""

from typing import Any

from elasticjob_operator.model.cluster_interface import Change, Resource
from testing.processes.census import Census
from testing.waiting import aeventually
from tests.integration.cli.conftest import Pods

_POLITE = "trap 'echo bye; exit 0' TERM; echo up; while :; do sleep 0.01; done"
_STUBBORN = "trap '' TERM; echo up; while :; do sleep 1000; done"


async def _delete(pods: Pods, grace_s: float | None = None) -> None:
    await pods.cluster.delete(Resource.POD, "default", "plain", grace_s=grace_s)


async def _last_status(pods: Pods) -> dict[str, Any]:
    """Return the last status before the object was removed."""
    async for event in pods.cluster.watch(Resource.POD):
        if event.change is Change.DELETED:
            status: dict[str, Any] = event.object["status"]
            return status
    raise AssertionError


async def test_a_deleted_pod_may_shut_down_gracefully(pods: Pods) -> None:
    await pods.create(_POLITE)
    await pods.wait_line("up")
    await _delete(pods, 30)
    await pods.wait_removed()
    assert ("plain", "bye") in pods.lines


async def test_the_end_of_a_pod_is_in_its_status_before_it_is_removed(pods: Pods) -> None:
    await pods.create(_POLITE)
    await pods.wait_line("up")
    await _delete(pods, 30)
    assert pods.end(await _last_status(pods))["exitCode"] == 0


async def test_a_pod_that_ignores_the_signal_is_killed_after_its_grace(pods: Pods) -> None:
    await pods.create(_STUBBORN)
    await pods.wait_line("up")
    await _delete(pods, 1)
    assert pods.end(await _last_status(pods))["exitCode"] == 137


async def test_a_second_request_may_shorten_the_grace(pods: Pods) -> None:
    await pods.create(_STUBBORN)
    await pods.wait_line("up")
    await _delete(pods, 1000)
    await _delete(pods, 1)
    await pods.wait_removed()


async def test_a_pod_is_not_removed_before_its_processes_have_ended(pods: Pods, census: Census) -> None:
    await pods.create(_STUBBORN)
    await pods.wait_line("up")
    await _delete(pods, 1)
    await pods.wait_removed()
    assert [p for p in census.found() if "sh" in p.name()] == []


async def test_a_pod_removed_by_force_is_stopped_at_once(pods: Pods, census: Census) -> None:
    await pods.create(_STUBBORN)
    await pods.wait_line("up")
    await _delete(pods, 0)
    await aeventually(lambda: not [p for p in census.found() if p.name() == "sh"])


async def test_a_pod_deleted_while_it_starts_is_removed(pods: Pods) -> None:
    await pods.create(_STUBBORN)
    await aeventually(lambda: _is_bound(pods))
    await _delete(pods, 1)
    await pods.wait_removed()


def _is_bound(pods: Pods) -> bool:
    pod = pods.get()
    return pod is not None and bool(pod["spec"].get("nodeName"))


async def test_a_pod_that_has_ended_is_removed_at_once(pods: Pods) -> None:
    await pods.create("exit 0")
    await pods.phase("Succeeded")
    await _delete(pods)
    await pods.wait_removed()


async def test_a_stopped_kubelet_stops_all_pods_and_accepts_no_more(pods: Pods) -> None:
    await pods.create(_STUBBORN)
    await pods.wait_line("up")
    await pods.kubelet.stop(0.1)
    assert pods.end(pods.status())["exitCode"] == 137
    await pods.create("echo late", "late")
    assert pods.status("late") == {}


async def test_a_stop_shortens_a_deletion_in_progress(pods: Pods) -> None:
    await pods.create(_STUBBORN)
    await pods.wait_line("up")
    await _delete(pods, 1000)
    await pods.kubelet.stop(0.1)
    await pods.wait_removed()
