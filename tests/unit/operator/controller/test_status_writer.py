"""Repeated events are one object with a higher count, and a long-lived job does not fill the memory."""

from dataclasses import replace

import pytest

from elasticjob_api.constants import EventReason
from elasticjob_api.status import JobStatus, KeepStatus, NodeStatus, ProgressStatus, StartStatus
from elasticjob_operator.cluster.in_memory import InMemoryCluster
from elasticjob_operator.controller.clocks import Clocks
from elasticjob_operator.controller.status_writer import SATURATED_DELAY_S, StatusWriter
from elasticjob_operator.metrics.recorder import MetricsRecorder
from elasticjob_operator.model.cluster_interface import Resource
from elasticjob_operator.model.event import Event
from elasticjob_operator.model.job_key import JobKey
from elasticjob_operator.model.job_state import JobState
from testing.builders import NOW_S, SETTINGS
from testing.clocks.fake_clock import FakeClock

JOB = {"metadata": {"name": "j", "namespace": "ns", "uid": "u"}}
KEY = JobKey("ns", "j", "u")
CLOCKS = Clocks(wall=lambda: NOW_S, monotonic=lambda: NOW_S)


def status_writer(cluster: InMemoryCluster) -> StatusWriter:
    return StatusWriter(cluster=cluster, settings=SETTINGS, clocks=CLOCKS, metrics=MetricsRecorder())


async def test_a_repeated_event_is_counted_and_not_duplicated() -> None:
    cluster, job_state = InMemoryCluster(), JobState()
    for _ in range(3):
        await status_writer(cluster).record(KEY, JOB, job_state, [Event(EventReason.STALLED, "words")])
    (event,) = cluster.objects(Resource.EVENT)
    assert (event["count"], event["message"]) == (3, "words")


async def test_only_the_last_of_many_events_are_counted() -> None:
    cluster, job_state = InMemoryCluster(), JobState()
    recorded = [Event(EventReason.RENDEZVOUS_COMPLETED, f"round {n}") for n in range(300)]
    await status_writer(cluster).record(KEY, JOB, job_state, recorded)
    assert list(job_state.recorded_events) == recorded[-100:]
    assert len(cluster.objects(Resource.EVENT)) == 300


async def test_cpu_memory_first_output_and_progress_alone_wait_for_the_longer_period() -> None:
    node = NodeStatus(name="j-0", pod_name="j-0-a", cpu_percent=10, start=StartStatus(kind="Warm"))
    job_state = JobState(status=JobStatus(nodes=(node,)), status_written_s=NOW_S - 2 * SETTINGS.status_period_s)
    used = replace(node, cpu_percent=90, rank_cpu_percent=(40, 50), rank_memory_bytes=(1, 2))
    used = replace(used, start=StartStatus(kind="Warm", first_output_milliseconds=46))
    soft = JobStatus(nodes=(used,), progress=ProgressStatus(step=1))
    wait_s = await status_writer(InMemoryCluster()).write(KEY, JOB, job_state, soft)
    assert wait_s == SETTINGS.progress_period_s - 2 * SETTINGS.status_period_s


@pytest.mark.parametrize(("ended", "is_written"), [("2026-01-01T00:00:00Z", True), ("", False)])
async def test_what_an_ended_job_has_on_disk_is_written_at_once(ended: str, *, is_written: bool) -> None:
    before = JobStatus(completion_time=ended, keep=KeepStatus(step=7, persisted_step=5))
    job_state = JobState(status=before, status_written_s=NOW_S - 2 * SETTINGS.status_period_s)
    after = replace(before, keep=KeepStatus(step=7, persisted_step=8))
    cluster = InMemoryCluster()
    job = await cluster.create(Resource.JOB, JOB)
    key = JobKey("ns", "j", job["metadata"]["uid"])
    assert (await status_writer(cluster).write(key, job, job_state, after) is None) is is_written


@pytest.mark.parametrize("start", [StartStatus(kind="Warm"), StartStatus(kind="Cold", reason="FOO differs"), None])
async def test_another_start_is_written_at_once(start: StartStatus | None) -> None:
    first = StartStatus(kind="Cold", reason="the first workers record their imports", first_output_milliseconds=900)
    node = NodeStatus(name="j-0", pod_name="j-0-a", start=first)
    job_state = JobState(status=JobStatus(nodes=(node,)), status_written_s=NOW_S - 2 * SETTINGS.status_period_s)
    restarted = JobStatus(nodes=(replace(node, start=start),))
    writer = status_writer(InMemoryCluster())
    assert (await writer.write(KEY, JOB, job_state, restarted), job_state.status) == (None, restarted)


async def test_a_new_process_spreads_progress_writes_over_time() -> None:
    clock, cluster, job_state = FakeClock(NOW_S), InMemoryCluster(), JobState()
    new = StatusWriter(
        cluster=cluster,
        settings=SETTINGS,
        clocks=Clocks(wall=clock, monotonic=clock),
        metrics=MetricsRecorder(),
        jobs=lambda: 1000,
    )
    wait_s = await new.write(KEY, JOB, job_state, JobStatus(progress=ProgressStatus(step=1)))
    assert wait_s is not None
    assert 0.0 < wait_s < 1000 / SETTINGS.progress_writes_per_s
    clock.now_s += wait_s
    assert await new.write(KEY, JOB, job_state, JobStatus(progress=ProgressStatus(step=1))) is None
    assert job_state.last_write_was_progress_only


async def test_a_new_process_writes_all_other_changes_at_once() -> None:
    job_state, status = JobState(), JobStatus(restarts=1, progress=ProgressStatus(step=1))
    new = StatusWriter(
        cluster=InMemoryCluster(), settings=SETTINGS, clocks=CLOCKS, metrics=MetricsRecorder(), jobs=lambda: 1000
    )
    assert (await new.write(KEY, JOB, job_state, status), job_state.status) == (None, status)


async def test_the_state_shows_whether_the_last_write_changed_progress_only() -> None:
    cluster, job_state, status = InMemoryCluster(), JobState(), JobStatus(nodes=(NodeStatus(name="j-0", pod_name="a"),))
    await status_writer(cluster).write(KEY, JOB, job_state, status)
    assert not job_state.last_write_was_progress_only
    job_state.status_written_s = float("-inf")
    await status_writer(cluster).write(KEY, JOB, job_state, replace(status, progress=ProgressStatus(step=1)))
    assert job_state.last_write_was_progress_only


async def test_a_job_does_not_wait_for_a_status_write_to_a_saturated_api_server() -> None:
    cluster, job_state, crowd = InMemoryCluster(), JobState(), [True]
    busy = StatusWriter(
        cluster=cluster, settings=SETTINGS, clocks=CLOCKS, metrics=MetricsRecorder(), is_saturated=lambda: bool(crowd)
    )
    status = JobStatus(nodes=(NodeStatus(name="j-0", pod_name="a"),))
    assert (await busy.write(KEY, JOB, job_state, status), job_state.status) == (SATURATED_DELAY_S, None)
    crowd.clear()
    assert (await busy.write(KEY, JOB, job_state, status), job_state.status) == (None, status)


async def test_deferred_writes_are_retried_with_growing_delays_until_one_succeeds() -> None:
    job_state, crowd = JobState(), [True]
    busy = StatusWriter(
        cluster=InMemoryCluster(),
        settings=SETTINGS,
        clocks=CLOCKS,
        metrics=MetricsRecorder(),
        is_saturated=lambda: bool(crowd),
    )
    assert [await busy.write(KEY, JOB, job_state, JobStatus(restarts=1)) for _ in range(5)] == [
        2.0,
        4.0,
        8.0,
        16.0,
        16.0,
    ]
    crowd.clear()
    await busy.write(KEY, JOB, job_state, JobStatus(restarts=1))
    crowd.append(True)
    job_state.status_written_s = float("-inf")
    assert await busy.write(KEY, JOB, job_state, JobStatus(restarts=2)) == SATURATED_DELAY_S
