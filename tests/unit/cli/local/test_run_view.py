"""The state of a run, as its view returns it."""

import asyncio

import pytest

from elasticjob_api.records import WorkerState
from tests.unit.cli.view_builders import a_pod, a_report, a_view, progress


@pytest.mark.parametrize(("phase", "finished"), [("Running", False), ("Succeeded", True), ("Failed", True)])
def test_a_job_is_finished_by_its_phase(phase: str, finished: bool) -> None:  # noqa: FBT001  # a table
    assert a_view(phase=phase).finished is finished


def test_only_workers_of_the_newest_round_count() -> None:
    view = a_view(a_report("old", round_=1), a_report("new", round_=2, ranks=(0,)))
    assert [worker.pod for worker in view.workers()] == ["new"]


def test_a_worker_that_runs_is_found_by_its_rank() -> None:
    worker = a_view(a_report(ranks=(4, 5))).running_worker(5)
    assert worker is not None
    assert worker.report.pid == 105


def test_a_worker_that_has_ended_is_not_found() -> None:
    assert a_view(a_report(state=WorkerState.FAILED)).running_worker(0) is None


def test_a_worker_of_a_deleted_pod_is_not_found() -> None:
    view = a_view(a_report("j-0-abcde"))
    view.deleted.add("j-0-abcde")
    assert view.running_worker(0) is None


def test_the_running_pod_of_a_slot_is_found() -> None:
    stopping = a_pod("a", slot=1, deletionTimestamp="now")
    view = a_view(pods=(a_pod("other", slot=0), a_pod("failed", slot=1, phase="Failed"), stopping, a_pod("b", slot=1)))
    found = view.pod_in_slot(1)
    assert found is not None
    assert found["metadata"]["name"] == "b"


def test_ended_and_deleted_pods_are_not_alive() -> None:
    view = a_view(
        pods=(a_pod("runs"), a_pod("ended", phase="Succeeded"), a_pod("went"), a_pod("waits", phase="Pending"))
    )
    view.deleted.add("went")
    assert [pod["metadata"]["name"] for pod in view.live_pods()] == ["runs", "waits"]


def test_a_pod_trains_until_its_trainer_has_ended() -> None:
    ended = {"name": "trainer", "state": {"terminated": {}}}
    pods = [a_pod(name) for name in ("both", "side")]
    for pod, first in zip(pods, ({**ended, "state": {"running": {}}}, ended), strict=True):
        pod["spec"]["containers"] = [{"name": "trainer"}, {"name": "side"}]
        pod["status"]["containerStatuses"] = [first, {"name": "side", "state": {"running": {}}}]
    view = a_view(pods=tuple(pods))
    view.job["spec"] = {}
    assert [pod["metadata"]["name"] for pod in view.training_pods()] == ["both"]


def test_progress_is_the_furthest_of_all_nodes() -> None:
    assert a_view(progress=(progress(3, 10), progress(5, 10), None)).percentage == 50


def test_no_progress_is_none() -> None:
    assert a_view(progress=(progress(3, 0),)).percentage == 0


async def test_waiting_ends_with_the_change_that_was_waited_for() -> None:
    view = a_view(phase="Running")
    waiting = asyncio.create_task(view.until(lambda: view.finished))
    await asyncio.sleep(0)
    view.changed()
    await asyncio.sleep(0)
    assert not waiting.done()
    view.job = {"status": {"phase": "Failed"}}
    view.changed()
    assert await waiting


async def test_waiting_may_have_a_time_limit() -> None:
    assert await a_view().until(lambda: False, at_most_s=0.0) is False
