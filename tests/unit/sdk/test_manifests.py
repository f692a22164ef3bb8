"""A manifest becomes a job unchanged, or one error has all its faults."""

from pathlib import Path

import pytest
import yaml

from elasticjob import ElasticJob
from elasticjob.errors import ElasticJobError, InvalidJob
from testing.kube.manifests import ELASTIC, MINIMAL, changed

HEAD = "apiVersion: elasticjob.io/v1alpha1\nkind: ElasticJob\nmetadata: {name: digits}"


def test_a_job_from_a_dictionary_keeps_it_as_it_was_written() -> None:
    job = ElasticJob.from_dict(ELASTIC)
    assert job.manifest == ELASTIC
    assert (job.name, job.namespace, job.uid) == ("digits", "", "")
    assert (job.spec.replicas, job.spec.effective_max) == (4, 8)


def test_a_job_does_not_share_its_manifest_with_the_caller() -> None:
    mine = changed(MINIMAL, {})
    job = ElasticJob.from_dict(mine)
    mine["spec"]["replicas"] = 7
    assert job.spec.replicas == 1


def test_a_job_from_a_file_and_from_its_text_are_the_same(tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    path.write_text(yaml.safe_dump(dict(ELASTIC)))
    assert ElasticJob.from_yaml(path).manifest == ElasticJob.from_text(path.read_text()).manifest == ELASTIC


def test_every_fault_is_reported_with_its_field() -> None:
    bad = changed(ELASTIC, {"spec.replicas": 9, "spec.maxRestarts": -1})
    with pytest.raises(InvalidJob, match=r"the manifest: spec\.replicas: .*maxReplicas") as caught:
        ElasticJob.from_dict(bad)
    assert {fault.path for fault in caught.value.faults} == {"spec.replicas", "spec.maxRestarts"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("a: [", "is not YAML", id="not-yaml"),
        pytest.param("", "has 0 documents", id="empty"),
        pytest.param("a: 1\n---\nb: 2", "has 2 documents", id="two"),
        pytest.param("- a", "is not an object", id="a-list"),
        pytest.param(
            f"{HEAD}\nspec: {{template: {{}}, agent: {{warmStart: Off}}}}",
            r'spec\.agent\.warmStart: False .*; YAML reads Off without quotes as false: write "Off"',
            id="an unquoted Off",
        ),
        pytest.param("apiVersion: v1\nkind: Pod\nspec: {}", "kind: is 'Pod'; it must be ElasticJob", id="a-pod"),
    ],
)
def test_a_text_without_a_job_is_refused_with_the_reason(text: str, message: str) -> None:
    with pytest.raises(InvalidJob, match=message):
        ElasticJob.from_text(text)


@pytest.mark.parametrize("template", [3, {"spec": None}, {"spec": {"containers": "x"}}, {"spec": {"containers": [1]}}])
def test_a_template_of_the_wrong_shape_is_refused(template: object) -> None:
    with pytest.raises(InvalidJob):
        ElasticJob.from_dict(changed(MINIMAL, {"spec.template": template}))


def test_a_missing_manifest_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidJob, match=r"none\.yaml: cannot be read: No such file"):
        ElasticJob.from_yaml(tmp_path / "none.yaml")


def test_a_job_that_is_not_on_a_cluster_raises_an_error() -> None:
    with pytest.raises(ElasticJobError, match=r"is not on a cluster: call create\(\)"):
        ElasticJob.from_dict(MINIMAL).suspend()
