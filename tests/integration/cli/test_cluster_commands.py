"""Commands that read and change jobs, on a real API server; the tests write the status as an operator would."""

import json
from typing import Any

import pytest
import yaml

from elasticjob import ElasticJob
from testing.kube.namespace import Namespace
from tests.integration.cli.on_a_cluster import Command
from tests.integration.sdk.conftest import Stage
from tests.integration.sdk.kubelet import Kubelet

pytestmark = pytest.mark.kube


def test_get_shows_a_table_names_or_the_full_object(stage: Stage, command: Command, job: ElasticJob) -> None:
    stage.set_status(job, phase="Running", readyReplicas=2, desiredReplicas=2, reason="Stalled", message="no output")
    head, row = command("get").out.splitlines()
    assert head.split() == ["NAME", "PHASE", "READY", "DESIRED", "RESTARTS", "AGE", "REASON"]
    assert row.split()[:5] == [job.name, "Running", "2", "2", "0"]
    assert command("get", "-o", "name").out == f"elasticjobs.elasticjob.io/{job.name}\n"
    assert command("get", "-A", "-o", "wide").out.splitlines()[0].split()[0] == "NAMESPACE"
    assert json.loads(command("get", job.name, "-o", "json").out)["metadata"]["uid"] == job.uid
    assert yaml.safe_load(command("get", "-o", "yaml").out)["items"][0]["metadata"]["uid"] == job.uid


def test_get_reports_a_namespace_without_jobs(command: Command) -> None:
    assert command("get").out == "no jobs in this namespace; -A lists the jobs of all namespaces\n"


def test_a_change_is_made_and_reported(command: Command, job: ElasticJob) -> None:
    where = f"{job.namespace}/{job.name}"
    before = job.spec.replicas
    assert command("scale", job.name, "--replicas", before + 1).out == f"{where}: replicas {before} -> {before + 1}\n"
    assert command("suspend", f"ejob/{job.name}").out.startswith(f"{where}: suspending")
    assert job.refresh().spec.suspend
    assert command("suspend", job.name).out == f"{where}: is suspended already\n"
    assert command("resume", job.name).out == f"{where}: resumed\n"
    assert command("restart", job.name, "-o", "name", code=2).err.startswith("elasticjob restart: argument -o")
    made = json.loads(command("restart", job.name, "-o", "json").out)
    assert made["metadata"]["annotations"]["elasticjob.io/restart"]
    assert (job.refresh().spec.replicas, job.spec.suspend) == (before + 1, False)


def test_options_may_precede_the_command_and_a_context_can_be_selected(command: Command, job: ElasticJob) -> None:
    config = command.kubeconfig
    ended = command("-n", job.namespace, "--context=test", "get", "--kubeconfig", config, "-o", "name", KUBECONFIG="x")
    assert ended.out.strip().endswith(job.name)


FAILURE: dict[str, Any] = {
    "time": "2026-01-01T00:00:01Z",
    "round": 1,
    "podName": "b",
    "rank": 1,
    "localRank": 0,
    "exitCode": 3,
    "message": "no data",
}


def test_describe_shows_the_failure_and_the_events(stage: Stage, command: Command, job: ElasticJob) -> None:
    stage.set_status(job, phase="Failed", reason="MaxRestartsExceeded", message="3 failures", lastFailure=FAILURE)
    about = {"apiVersion": "elasticjob.io/v1alpha1", "kind": "ElasticJob", "name": job.name, "uid": job.uid}
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "e1"},
        "involvedObject": {**about, "namespace": job.namespace},
        "reason": "WorkerFailed",
        "message": "rank 1 on b exited with 3",
        "type": "Warning",
        "firstTimestamp": "2026-01-01T00:00:01Z",
        "lastTimestamp": "2026-01-01T00:00:01Z",
    }
    stage.namespace.apply(event)
    lines = command("describe", job.name).out.splitlines()
    assert "Why: MaxRestartsExceeded: 3 failures." in lines
    assert any("rank 1 in pod b exited with 3 in round 1: no data." in line for line in lines)
    assert "  00:00:01  WorkerFailed: rank 1 on b exited with 3." in lines
    assert json.loads(command("describe", job.name, "-o", "json").out)["events"][0]["reason"] == "WorkerFailed"


@pytest.fixture
def two(stage: Stage, kubelet: Kubelet, job: ElasticJob) -> ElasticJob:
    """Return a job that runs in two pods, which have written a few lines."""
    for pod in ("a", "b"):
        kubelet.start_pod(pod)
    stage.runs(job, "a", "b")
    for pod, line in (("a", "zero"), ("b", "one"), ("a", "zero again")):
        kubelet.write(pod, line)
    return job


def test_logs_are_merged_with_their_ranks_or_show_one_rank(two: ElasticJob, command: Command) -> None:
    assert command("logs", two.name).out == "[rank0] zero\n[rank1] one\n[rank0] zero again\n"
    assert command("logs", two.name, "-r", "1").out == "one\n"
    assert command("logs", two.name, "-r", 0, "-r", 1, "--tail", 1).out == "[rank1] one\n[rank0] zero again\n"
    assert command("logs", two.name, "-r", "1", "--timestamps").out.startswith("2026-01-01T00:00:00.002")


def test_logs_of_the_worker_that_failed_are_found(stage: Stage, two: ElasticJob, command: Command) -> None:
    stage.set_status(two, lastFailure=FAILURE)
    assert command("logs", two.name, "--failed").out == "one\n"


def test_logs_of_a_failed_worker_beside_sidecars_are_those_of_the_trainer(
    stage: Stage, kubelet: Kubelet, job: ElasticJob, command: Command
) -> None:
    kubelet.start_pod("b", "proxy", "metrics")
    kubelet.write("b", "out of data")
    stage.set_status(job, lastFailure=FAILURE)
    assert command("logs", job.name, "--failed").out == "out of data\n"


def test_logs_of_a_deleted_failed_pod_show_the_message_in_the_status(
    stage: Stage, job: ElasticJob, command: Command
) -> None:
    stage.set_status(job, phase="Running", lastFailure=FAILURE)
    message = command("logs", job.name, "--failed", code=1).err
    assert "the pod b was deleted, and its log with it; the job's status has: rank 1 in pod b exited with 3" in message
    assert message.endswith("no data\n")


def test_logs_are_followed_until_the_job_has_ended(
    stage: Stage, kubelet: Kubelet, two: ElasticJob, command: Command
) -> None:
    for pod in ("a", "b"):
        kubelet.finish(pod)
    stage.runs(two, "a", "b", phase="Failed")
    assert command("logs", two.name, "-r", 0, "-f", code=1).out == "zero\nzero again\n"


def test_watch_into_a_pipe_writes_lines_and_ends_with_the_job(stage: Stage, two: ElasticJob, command: Command) -> None:
    stage.runs(two, "a", "b", phase="Succeeded")
    (line,) = command("watch", two.name).out.splitlines()
    assert f"{two.namespace}/{two.name}  Succeeded" in line
    once = command("watch", two.name, "--once", COLUMNS="100").out
    assert "ranks" not in once
    assert "a " in once
    assert "\x1b" not in once


def test_a_job_nested_as_deeply_as_an_api_server_stores_hides_no_other(
    namespace: Namespace, command: Command, job: ElasticJob
) -> None:
    trainer = {"name": "trainer", "image": "i", "command": ["true"]}
    manifest = {
        "apiVersion": "elasticjob.io/v1alpha1",
        "kind": "ElasticJob",
        "metadata": {"name": "deep"},
        "spec": {"template": {"spec": {"containers": [trainer], "hole": "@"}}},
    }
    file = command.folder / "deep.json"
    file.write_text(json.dumps(manifest).replace('"@"', "[" * 9000 + "]" * 9000))
    path = f"/apis/elasticjob.io/v1alpha1/namespaces/{namespace.name}/elasticjobs"
    namespace.kubectl("create", "--raw", path, "-f", str(file))
    assert {row.split()[0] for row in command("get").out.splitlines()[1:]} == {job.name, "deep"}
    assert command("get", "-A", "-o", "name").out.count("/deep\n") == 1
    assert command("get", "deep").out.splitlines()[1].startswith("deep ")
    assert "deep" in command("describe", "deep").out
    assert "[" * 50 in "".join(command("get", "deep", "-o", "json").out.split())
    assert len(yaml.safe_load(command("get", "-o", "yaml").out)["items"]) == 2
    assert "Traceback" not in command("doctor", code=None).err
