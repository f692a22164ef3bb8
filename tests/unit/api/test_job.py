"""From a parsed manifest to a job: the sentence that each fault gets, and what is made of what is given."""

from typing import Any

import pytest

from elasticjob_api.errors import InvalidSpec
from elasticjob_api.job import ElasticJob, nproc_per_node, parse_job, status_to_dict, trainer_container
from elasticjob_api.status import JobStatus
from tests.integration.kube.manifests import ELASTIC, MINIMAL, REMOVED, changed

POD = "spec.template.spec"
TRAINER = f"{POD}.containers.0"


def sentence(manifest: Any) -> str:
    with pytest.raises(InvalidSpec) as refused:
        parse_job(manifest)
    return str(refused.value)


@pytest.mark.parametrize(
    ("manifest", "said"),
    [
        pytest.param(None, "manifest: is not an object; it must be one ElasticJob", id="nothing"),
        pytest.param([], "manifest: is not an object; it must be one ElasticJob", id="a list"),
        pytest.param(
            {**MINIMAL, "apiVersion": "v1"}, "apiVersion: is 'v1'; it must be elasticjob.io/v1alpha1", id="version"
        ),
        pytest.param({**MINIMAL, "kind": "Job"}, "kind: is 'Job'; it must be ElasticJob", id="kind"),
        pytest.param(
            {**MINIMAL, "data": {}},
            "data: unknown field; an ElasticJob has apiVersion, kind, metadata and spec",
            id="another field",
        ),
        pytest.param(
            {**MINIMAL, "maxRestarts": 3}, "maxRestarts: unknown field; it belongs into spec", id="a field too far out"
        ),
        pytest.param({**MINIMAL, "metadata": None}, "metadata.name: is required", id="no metadata"),
        pytest.param({**MINIMAL, "metadata": {"name": 7}}, "metadata.name: is required", id="a name that is none"),
        pytest.param(changed(MINIMAL, {"spec": REMOVED}), "spec: is required", id="no spec"),
        pytest.param({**MINIMAL, "spec": []}, "spec: [] is not an object", id="a list for a spec"),
        pytest.param({}, "apiVersion: is None; it must be elasticjob.io/v1alpha1; kind: is None; it must be"
                     " ElasticJob; spec: is required", id="an empty object"),
    ],
)  # fmt: skip
def test_what_is_no_job_at_all(manifest: Any, said: str) -> None:
    assert sentence(manifest) == said


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        pytest.param({"spec.replcas": 2}, "spec.replcas: unknown field; did you mean replicas?", id="a slip"),
        pytest.param({"spec.replicas": "2"}, "spec.replicas: '2' is not a whole number", id="a word for a number"),
        pytest.param(
            {"spec.replicas": 9},
            "spec.replicas: is 9; it must be from 2 (minReplicas) to 8 (maxReplicas)",
            id="out of range",
        ),
        pytest.param({"spec.minReplicas": 0}, "spec.minReplicas: is 0; it must be at least 1", id="nobody"),
        pytest.param({"spec.replicaStep": 0}, "spec.replicaStep: is 0; it must be at least 1", id="no step"),
        pytest.param(
            {"spec.nprocPerNode": 0}, "spec.nprocPerNode: is 0; it must be from 1 to 1024, or auto", id="no worker"
        ),
        pytest.param(
            {"spec.maxRestarts": -1}, "spec.maxRestarts: is -1; it must not be negative", id="a negative budget"
        ),
        pytest.param(
            {"spec.failureGraceSeconds": 0.5},
            "spec.failureGraceSeconds: is 0.5; it must be a whole number",
            id="half a second",
        ),
        pytest.param(
            {f"{TRAINER}.command": REMOVED},
            f"{POD}.containers[0].command: is required: the agent starts it, and the entry point of an image cannot"
            " be known",
            id="no command",
        ),
        pytest.param(
            {f"{POD}.containers": REMOVED},
            f"{POD}.containers: is required: at least the trainer container",
            id="no container",
        ),
        pytest.param(
            {f"{POD}.restartPolicy": "Always"},
            f"{POD}.restartPolicy: is 'Always'; the operator sets it to Never; remove it",
            id="a field that is ours",
        ),
        pytest.param(
            {"spec.trainerContainer": "other"},
            f"spec.trainerContainer: is 'other', and no container of {POD}.containers has that name",
            id="no such container",
        ),
        pytest.param(
            {f"{TRAINER}.name": "elasticjob-x"},
            f"{POD}.containers[0].name: is 'elasticjob-x'; names that begin with elasticjob- are reserved, choose"
            " another",
            id="a reserved name",
        ),
    ],
)
def test_fault_in_one_sentence(changes: dict[str, Any], said: str) -> None:
    assert sentence(changed(ELASTIC, changes)) == said


def test_faults_between_fields_are_all_told() -> None:
    bad = changed(ELASTIC, {"spec.replicas": 9, "spec.nprocPerNode": 0, "spec.maxRestarts": -1})
    assert sentence(bad).count("; it must") == 3


def job(**changes: Any) -> ElasticJob:
    return parse_job(changed(MINIMAL, changes))


def test_a_static_job_is_as_large_as_its_replicas() -> None:
    spec = job(**{"spec.replicas": 3}).spec
    assert (spec.lowest, spec.replicas, spec.highest) == (3, 3, 3)


def test_metadata_is_what_the_manifest_says_or_a_default() -> None:
    metadata = job(**{"metadata.labels": {"a": "b"}, "metadata.uid": "u"}).metadata
    assert (metadata.name, metadata.namespace, metadata.uid, metadata.labels) == ("digits", "default", "u", {"a": "b"})


@pytest.mark.parametrize(
    ("given", "limits", "nproc"),
    [
        pytest.param(4, {"nvidia.com/gpu": 8}, 4, id="a number is a number"),
        pytest.param("auto", {}, 1, id="no limits"),
        pytest.param("auto", {"cpu": 8, "memory": "1Gi"}, 1, id="no GPU"),
        pytest.param("auto", {"nvidia.com/gpu": "8"}, 8, id="NVIDIA"),
        pytest.param("auto", {"amd.com/gpu": 2}, 2, id="AMD"),
        pytest.param("auto", {"nvidia.com/mig-1g.5gb": 3, "nvidia.com/mig-2g.10gb": 1}, 4, id="slices"),
    ],
)
def test_workers_of_a_node(given: Any, limits: dict[str, Any], nproc: int) -> None:
    changes = {"spec.nprocPerNode": given, f"{TRAINER}.resources": {"limits": limits}}
    assert nproc_per_node(job(**changes).spec) == nproc


def test_the_trainer_is_the_first_container_unless_it_is_named() -> None:
    containers = [{"name": name, "image": "i", "command": ["true"]} for name in ("first", "second")]
    assert trainer_container(job(**{f"{POD}.containers": containers}).spec)["name"] == "first"
    named = job(**{f"{POD}.containers": containers, "spec.trainerContainer": "second"})
    assert trainer_container(named.spec)["name"] == "second"


def test_a_status_of_a_newer_operator_is_read_as_far_as_it_is_known() -> None:
    manifest = {**MINIMAL, "status": {"restarts": 2, "moodOfTheDay": "good"}}
    assert parse_job(manifest).status.restarts == 2


def test_a_status_shows_its_counters_and_nothing_empty() -> None:
    shown = status_to_dict(JobStatus())
    assert shown["restarts"] == 0
    assert not [name for name, value in shown.items() if value in ("", [], {}, None)]
