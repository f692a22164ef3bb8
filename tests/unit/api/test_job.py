"""From a parsed manifest to a job: the sentence that each fault gets, and what is made of what is given."""

from typing import Any

import pytest

from elasticjob_api.constants import Phase
from elasticjob_api.errors import InvalidSpec
from elasticjob_api.job import (
    ElasticJob,
    nproc_per_node,
    parse_job,
    parse_stored_job,
    read_status,
    status_to_dict,
    trainer_container,
)
from elasticjob_api.spec import CleanPodPolicy
from elasticjob_api.status import JobStatus
from testing.kube.manifests import ELASTIC, MINIMAL, REMOVED, changed

POD = "spec.template.spec"
TRAINER = f"{POD}.containers.0"


def sentence(manifest: Any) -> str:
    with pytest.raises(InvalidSpec) as refused:
        parse_job(manifest)
    return str(refused.value)


@pytest.mark.parametrize(
    ("manifest", "message"),
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
def test_what_is_no_job_at_all(manifest: Any, message: str) -> None:
    assert sentence(manifest) == message


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        pytest.param({"spec.replcas": 2}, "spec.replcas: unknown field; did you mean replicas?", id="a slip"),
        pytest.param({"spec.replicas": "2"}, "spec.replicas: '2' is not a whole number", id="a word for a number"),
        pytest.param(
            {"spec.replicas": 9},
            "spec.replicas: is 9; it must be from 2 (minReplicas) to 8 (maxReplicas)",
            id="out of range",
        ),
        pytest.param(
            {"spec.replicas": -1, "spec.minReplicas": REMOVED, "spec.maxReplicas": REMOVED},
            "spec.replicas: is -1; it must be from 1 to 65535",
            id="less than no node",
        ),
        pytest.param(
            {"spec.replicas": 10**9, "spec.maxReplicas": REMOVED},
            "spec.replicas: is 1000000000; it must be from 1 to 65535",
            id="more nodes than there are",
        ),
        pytest.param({"spec.minReplicas": 0}, "spec.minReplicas: is 0; it must be from 1 to 65535", id="nobody"),
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
def test_fault_in_one_sentence(changes: dict[str, Any], message: str) -> None:
    assert sentence(changed(ELASTIC, changes)) == message


def test_faults_between_fields_are_all_told() -> None:
    bad = changed(ELASTIC, {"spec.replicas": 9, "spec.nprocPerNode": 0, "spec.maxRestarts": -1})
    assert sentence(bad).count("; it must") == 3


def job(**changes: Any) -> ElasticJob:
    return parse_job(changed(MINIMAL, changes))


def test_a_static_job_is_as_large_as_its_replicas() -> None:
    spec = job(**{"spec.replicas": 3}).spec
    assert (spec.effective_min, spec.replicas, spec.effective_max) == (3, 3, 3)


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


@pytest.mark.parametrize(
    "limits",
    [
        pytest.param({"nvidia.com/gpu": 1025}, id="one too many"),
        pytest.param({"nvidia.com/gpu": 1000, "amd.com/gpu": "25"}, id="together"),
        pytest.param({"nvidia.com/gpu": "1000000000000"}, id="a million million"),
        pytest.param({"nvidia.com/gpu": "9" * 5000}, id="more digits than Python reads"),
    ],
)
def test_a_node_has_no_more_workers_by_its_gpus_than_by_number(limits: dict[str, Any]) -> None:
    with pytest.raises(InvalidSpec, match=r"limits: has more than 1024 GPUs, .* set spec.nprocPerNode"):
        job(**{"spec.nprocPerNode": "auto", f"{TRAINER}.resources": {"limits": limits}})
    assert nproc_per_node(job(**{"spec.nprocPerNode": 4, f"{TRAINER}.resources": {"limits": limits}}).spec) == 4


def test_the_trainer_is_the_first_container_unless_it_is_named() -> None:
    containers = [{"name": name, "image": "i", "command": ["true"]} for name in ("first", "second")]
    assert trainer_container(job(**{f"{POD}.containers": containers}).spec)["name"] == "first"
    named = job(**{f"{POD}.containers": containers, "spec.trainerContainer": "second"})
    assert trainer_container(named.spec)["name"] == "second"


def test_a_status_of_a_newer_operator_is_read_as_far_as_it_is_known() -> None:
    manifest = {**MINIMAL, "status": {"restarts": 2, "moodOfTheDay": "good"}}
    assert parse_job(manifest).status.restarts == 2


@pytest.mark.parametrize(
    ("changes", "unknown"),
    [
        pytest.param({}, (), id="nothing"),
        pytest.param({"spec.newThing": "x"}, ("spec.newThing",), id="a field"),
        pytest.param({"spec.agent.newThing": {"v": 1}}, ("spec.agent.newThing",), id="a field deep inside"),
        pytest.param({"spec.cleanPodPolicy": "Later"}, ("spec.cleanPodPolicy",), id="a word"),
        pytest.param(
            {"spec.failurePolicy": {"rules": [{"action": "Wait", "onExitCodes": {"values": [1]}}]}},
            ("spec.failurePolicy.rules[0].action",),
            id="a word of a rule",
        ),
    ],
)
def test_a_stored_job_names_what_this_version_does_not_know(changes: dict[str, Any], unknown: tuple[str, ...]) -> None:
    found = parse_stored_job(changed(MINIMAL, changes))
    assert (found.unknown_fields, found.spec) == (unknown, parse_job(MINIMAL).spec)
    assert found.spec.clean_pod_policy is CleanPodPolicy.RUNNING


def test_a_fault_in_a_stored_job_is_a_fault() -> None:
    with pytest.raises(InvalidSpec, match=r"^spec\.replicas: '2' is not a whole number$"):
        parse_stored_job(changed(MINIMAL, {"spec.replicas": "2", "spec.newThing": 1}))


def test_fields_and_words_of_a_newer_operator_in_a_status_are_ignored_and_named() -> None:
    condition = {"type": "Paused", "status": "Maybe", "reason": "R", "zone": "z"}
    newer = {
        "phase": "Dreaming", "startTime": "2026-01-01T00:00:00Z", "futureField": "i", "conditions": [condition],
        "nodes": [{"name": "a", "podName": "a-x", "futureField": {"v": 1}}], "workerStates": {"running": 2, "warm": 1},
    }  # fmt: skip
    ignored: list[str] = []
    status = read_status(newer, ignored)
    assert (status.phase, status.start_time, status.nodes[0].pod_name) == ("Dreaming", "2026-01-01T00:00:00Z", "a-x")
    assert (status.conditions[0].type, status.conditions[0].status, status.worker_states.running) == (
        "Paused",
        "Maybe",
        2,
    )
    assert ignored == [
        "status.futureField", "status.conditions[0].zone", "status.nodes[0].futureField", "status.workerStates.warm",
    ]  # fmt: skip


def test_of_a_broken_status_all_that_fits_is_read() -> None:
    broken = {
        "phase": "Running", "startTime": "2026-01-01T00:00:00Z", "replicas": "x", "nodes": {"not": "a list"},
        "lastFailure": {"round": 1}, "conditions": [7, {"type": "Running", "status": "True", "reason": "R"}],
        "progress": {"step": [], "total": 3},
    }  # fmt: skip
    status = read_status(broken)
    assert (status.phase, status.start_time, status.replicas) == (Phase.RUNNING, "2026-01-01T00:00:00Z", 0)
    assert (status.nodes, status.last_failure, [each.type for each in status.conditions]) == ((), None, ["Running"])
    assert status.progress is not None
    assert status.progress.total == 3


@pytest.mark.parametrize("value", [None, {}, [], 5, "gone"])
def test_where_there_is_nothing_to_read_the_status_is_empty(value: Any) -> None:
    assert read_status(value) == JobStatus()


def test_a_status_shows_its_counters_and_nothing_empty() -> None:
    shown = status_to_dict(JobStatus())
    assert shown["restarts"] == 0
    assert not [name for name, value in shown.items() if value in ("", [], {}, None)]
