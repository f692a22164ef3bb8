"""The methods of `ElasticJob` on a real API server."""

import os
from pathlib import Path

import pytest

from elasticjob import ALL_NAMESPACES, Cluster, ElasticJob, Phase
from elasticjob.errors import (
    AlreadyExists,
    Forbidden,
    JobGone,
    NoCluster,
    NotFound,
    Rejected,
    Unreachable,
)
from testing.kube.manifests import ELASTIC, changed
from tests.integration.sdk.conftest import Stage

pytestmark = pytest.mark.kube


def test_a_job_is_created_in_the_namespace_of_the_context(stage: Stage) -> None:
    job = stage.created()
    assert job.namespace == stage.namespace.name
    assert job.uid
    assert stage.namespace.get("digits")["metadata"]["uid"] == job.uid


def test_a_namespace_in_the_manifest_is_kept(stage: Stage) -> None:
    job = ElasticJob.from_dict(
        changed(ELASTIC, {"metadata.namespace": "default", "metadata.name": stage.namespace.name})
    )
    assert job.create(cluster=stage.cluster).namespace == "default"


def test_a_job_that_was_read_can_be_created_elsewhere(stage: Stage, job: ElasticJob) -> None:
    twin = ElasticJob.from_dict(changed(dict(job.manifest), {"metadata.name": "twin"})).create(cluster=stage.cluster)
    assert twin.uid != job.uid


def test_a_job_is_found_again_and_reads_as_the_contracts_records(stage: Stage, job: ElasticJob) -> None:
    stage.set_status(job, phase="Running", restarts=2, workerStates={"running": 8})
    found = ElasticJob.get("digits", cluster=stage.cluster)
    assert (found.phase, found.status.restarts, found.status.worker_states.running) == (Phase.RUNNING, 2, 8)
    assert found.spec.min_replicas == 2


def test_jobs_are_listed_by_namespace_and_label(stage: Stage, job: ElasticJob) -> None:
    labelled = changed(ELASTIC, {"metadata.name": "other", "metadata.labels": {"team": "vision"}})
    ElasticJob.from_dict(labelled).create(cluster=stage.cluster)
    assert [each.name for each in ElasticJob.list(cluster=stage.cluster)] == ["digits", "other"]
    assert [each.name for each in ElasticJob.list(labels={"team": "vision"}, cluster=stage.cluster)] == ["other"]
    everywhere = ElasticJob.list(namespace=ALL_NAMESPACES, cluster=stage.cluster)
    assert job.uid in {each.uid for each in everywhere}


def test_scale_suspend_and_resume_change_the_spec(stage: Stage, job: ElasticJob) -> None:
    assert job.scale(6).spec.replicas == 6
    assert job.suspend().spec.suspend is True
    assert job.resume().spec.suspend is False
    assert stage.namespace.get("digits")["spec"]["replicas"] == 6


def test_each_restart_is_a_new_one(job: ElasticJob) -> None:
    annotation = "elasticjob.io/restart"
    first = job.restart().manifest["metadata"]["annotations"][annotation]
    assert job.restart().manifest["metadata"]["annotations"][annotation] != first


def test_a_scale_outside_the_range_is_refused_with_the_rule(job: ElasticJob) -> None:
    with pytest.raises(Rejected, match=r"cannot scale the job digits to 9: it must have 2 to 8 nodes"):
        job.scale(9)


def test_a_name_in_use_is_reported(stage: Stage, job: ElasticJob) -> None:
    with pytest.raises(
        AlreadyExists, match=r'cannot create the job digits: .*"digits" already exists; delete it first'
    ):
        ElasticJob.from_dict(ELASTIC).create(cluster=stage.cluster)
    assert job.refresh().uid == job.uid


def test_a_missing_job_is_reported(stage: Stage) -> None:
    with pytest.raises(NotFound, match=r"cannot get the job none: .*; check name, namespace and context"):
        ElasticJob.get("none", cluster=stage.cluster)


def test_delete_deletes_and_may_be_called_twice(stage: Stage, job: ElasticJob) -> None:
    job.delete()
    job.delete()
    assert ElasticJob.list(cluster=stage.cluster) == ()


def test_another_job_of_the_same_name_is_not_confused_with_this_one(stage: Stage, job: ElasticJob) -> None:
    ElasticJob.get("digits", cluster=stage.cluster).delete()
    successor = stage.created()
    with pytest.raises(JobGone, match=r"the job digits .* was deleted"):
        job.refresh()
    with pytest.raises(AlreadyExists):
        job.delete()
    assert successor.refresh().uid != job.uid


def test_a_missing_permission_is_named(stage: Stage) -> None:
    config = stage.namespace.server.kubeconfig("nobody", namespace=stage.namespace.name)
    with pytest.raises(Forbidden, match=r'cannot list jobs: .*User "nobody" cannot list resource "elasticjobs"'):
        ElasticJob.list(cluster=Cluster.connect(kubeconfig=config))


def test_without_a_cluster_the_kubeconfig_of_the_environment_is_used(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = stage.namespace.server.kubeconfig(namespace=stage.namespace.name)
    monkeypatch.setenv("KUBECONFIG", os.fspath(config))
    assert ElasticJob.from_dict(ELASTIC).create().namespace == stage.namespace.name


def test_a_missing_kubeconfig_is_named(tmp_path: Path) -> None:
    with pytest.raises(NoCluster, match=r"cannot use .*none: .*; set \$KUBECONFIG to a kubeconfig"):
        Cluster.connect(kubeconfig=tmp_path / "none")


def test_a_missing_context_is_named(stage: Stage) -> None:
    config = stage.namespace.server.kubeconfig(namespace=stage.namespace.name)
    with pytest.raises(NoCluster, match=r"no context production in .*; `kubectl config get-contexts` lists"):
        Cluster.connect(kubeconfig=config, context="production")


def test_a_server_that_does_not_answer_is_named(stage: Stage, tmp_path: Path) -> None:
    config = stage.namespace.server.kubeconfig(namespace=stage.namespace.name).read_text()
    (tmp_path / "config").write_text(config.replace(stage.namespace.server.url, "https://127.0.0.1:9"))
    with pytest.raises(Unreachable, match=r"cannot list jobs: https://127\.0\.0\.1:9 did not answer: .*refused"):
        ElasticJob.list(cluster=Cluster.connect(kubeconfig=tmp_path / "config"))
