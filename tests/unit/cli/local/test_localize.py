"""A manifest as it runs on this machine."""

from typing import Any

from elasticjob_cli.local.localize import images_of, localized

_MANIFEST: dict[str, Any] = {
    "apiVersion": "elasticjob.io/v1alpha1",
    "kind": "ElasticJob",
    "metadata": {"name": "j", "uid": "old", "resourceVersion": "7", "labels": {"a": "b"}},
    "spec": {"template": {"spec": {"containers": [{"image": "a"}, {"image": "b"}, {"image": "a"}, {}]}}},
    "status": {"phase": "Failed"},
}


def test_what_a_cluster_wrote_into_it_is_left_out() -> None:
    job = localized(_MANIFEST)
    assert job["metadata"] == {"name": "j", "namespace": "default", "labels": {"a": "b"}}
    assert "status" not in job


def test_the_agent_is_the_installed_one() -> None:
    spec = {**_MANIFEST["spec"], "agent": {"mode": "Inject", "logSizeLimit": "1Gi"}}
    agent = localized({**_MANIFEST, "spec": spec})["spec"]["agent"]
    assert (agent["mode"], agent["logSizeLimit"]) == ("Provided", "1Gi")


def test_delays_fit_one_machine() -> None:
    spec = localized(_MANIFEST)["spec"]
    assert (spec["scaling"], spec["agent"]["reportPeriodSeconds"]) == ({"scaleUpDelaySeconds": 1}, 1)


def test_delays_of_the_manifest_remain() -> None:
    given = {"scaling": {"scaleUpDelaySeconds": 7}, "agent": {"reportPeriodSeconds": 9}}
    spec = localized({**_MANIFEST, "spec": {**_MANIFEST["spec"], **given}})["spec"]
    assert (spec["scaling"]["scaleUpDelaySeconds"], spec["agent"]["reportPeriodSeconds"]) == (7, 9)


def test_the_manifest_is_not_changed() -> None:
    before = repr(_MANIFEST)
    localized(_MANIFEST)
    assert repr(_MANIFEST) == before


def test_images_are_named_once() -> None:
    assert images_of(_MANIFEST) == ["a", "b"]
