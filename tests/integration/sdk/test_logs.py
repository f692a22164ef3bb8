"""Logs that a real API server reads from a node's kubelet."""

import itertools
import threading

import pytest

from elasticjob import ElasticJob
from elasticjob.errors import NoLogs
from testing.waiting import eventually
from tests.integration.sdk.conftest import Stage
from tests.integration.sdk.kubelet import Kubelet

pytestmark = pytest.mark.kube


def readers() -> list[threading.Thread]:
    """Return the threads of the SDK that are alive."""
    return [thread for thread in threading.enumerate() if thread.name == "elasticjob-logs"]


@pytest.fixture
def two(stage: Stage, kubelet: Kubelet, job: ElasticJob) -> ElasticJob:
    """Return a job that runs in two pods, `a` with rank 0 and `b` with rank 1."""
    kubelet.start_pod("a")
    kubelet.start_pod("b")
    stage.runs(job, "a", "b")
    return job


def test_a_rank_is_read_from_its_pod(kubelet: Kubelet, two: ElasticJob) -> None:
    kubelet.write("a", "zero")
    kubelet.write("b", "one", "two words")
    assert [(line.pod, line.rank, line.text) for line in two.logs(rank=1)] == [("b", 1, "one"), ("b", 1, "two words")]


def test_without_a_rank_all_pods_are_put_in_order_of_time(kubelet: Kubelet, two: ElasticJob) -> None:
    for pod, text in [("b", "1"), ("a", "2"), ("a", "3"), ("b", "4")]:
        kubelet.write(pod, text)
    assert [line.text for line in two.logs()] == ["1", "2", "3", "4"]


def test_the_prefixes_show_which_worker_of_a_pod_wrote_a_line(stage: Stage, kubelet: Kubelet, job: ElasticJob) -> None:
    kubelet.start_pod("a")
    stage.runs(job, "a", workers=2)
    kubelet.write("a", "round 1 begins", "[rank1] one", "[rank0] zero", "[rank1] two")
    assert [line.text for line in job.logs(rank=1)] == ["one", "two"]
    assert [line.rank for line in job.logs()] == [None, 1, 0, 1]


@pytest.mark.parametrize("follow", [False, True])
def test_beside_sidecars_the_trainer_is_read(stage: Stage, kubelet: Kubelet, job: ElasticJob, follow: bool) -> None:  # noqa: FBT001  # a parameter
    kubelet.start_pod("a", "proxy", "metrics")
    stage.runs(job, "a", phase="Succeeded")
    kubelet.write("a", "loss 0.1")
    kubelet.finish("a")
    assert [line.text for line in job.logs(follow=follow)] == ["loss 0.1"]


def test_only_the_tail_is_read_on_request(kubelet: Kubelet, two: ElasticJob) -> None:
    kubelet.write("a", "1", "2", "3")
    assert [line.text for line in two.logs(rank=0, tail=2)] == ["2", "3"]


def test_the_logs_of_other_pods_are_read_if_one_is_gone(stage: Stage, kubelet: Kubelet, two: ElasticJob) -> None:
    kubelet.write("a", "zero")
    stage.runs(two, "a", "gone")
    assert [line.text for line in two.logs()] == ["zero"]


def test_missing_logs_of_all_pods_are_reported_with_the_reason(stage: Stage, two: ElasticJob) -> None:
    stage.runs(two, "gone", "too")
    with pytest.raises(NoLogs, match="its pods were deleted, and their logs with them"):
        list(two.logs())
    stage.set_status(two, phase="Suspended", nodes=[])
    with pytest.raises(NoLogs, match="it has no pods at present"):
        two.logs()


def test_a_rank_that_no_pod_has_is_reported(two: ElasticJob) -> None:
    with pytest.raises(NoLogs, match="no log of rank 2 of the job digits: it has ranks 0 to 1"):
        two.logs(rank=2)


def test_lines_are_followed_until_the_job_has_ended(stage: Stage, kubelet: Kubelet, two: ElasticJob) -> None:
    kubelet.write("a", "before")
    lines = two.logs(rank=0, follow=True)
    assert next(lines).text == "before"
    kubelet.write("a", "after")
    assert next(lines).text == "after"
    stage.runs(two, "a", "b", phase="Succeeded")
    kubelet.write("a", "last")
    kubelet.finish("a")
    kubelet.finish("b")
    assert [line.text for line in lines] == ["last"]
    assert readers() == []


def test_a_pod_that_replaces_a_lost_one_is_followed_too(stage: Stage, kubelet: Kubelet, two: ElasticJob) -> None:
    kubelet.write("b", "old")
    lines = two.logs(rank=1, follow=True)
    assert next(lines).text == "old"
    stage.runs(two, "a", "b2")  # in the status before it is made
    kubelet.start_pod("b2")
    kubelet.write("b2", "new")
    assert next(lines).text == "new"
    lines.close()  # type: ignore[attr-defined]


def test_after_a_broken_connection_no_line_is_missing_and_none_comes_twice(kubelet: Kubelet, two: ElasticJob) -> None:
    kubelet.write("a", "1", "2")
    lines = two.logs(rank=0, follow=True)
    assert [next(lines).text, next(lines).text] == ["1", "2"]
    kubelet.drop("a")
    kubelet.write("a", "3")
    assert next(lines).text == "3"
    lines.close()  # type: ignore[attr-defined]


def test_a_reader_that_stops_leaves_no_thread_and_no_connection(kubelet: Kubelet, two: ElasticJob) -> None:
    kubelet.write("a", *(str(i) for i in range(5000)))
    lines = two.logs(follow=True)
    assert [line.text for line in itertools.islice(lines, 3)] == ["0", "1", "2"]
    lines.close()  # type: ignore[attr-defined]
    assert readers() == []

    def no_reader_is_left() -> bool:
        kubelet.write("b", "a write shows that the reader has closed the connection")
        return kubelet.readers("a") == kubelet.readers("b") == 0

    eventually(no_reader_is_left, within_s=30, what="no reader left", pause_s=0.1)
