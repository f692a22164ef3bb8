"""`parse_job` refuses what the CRD refuses: one table of bad manifests for both (the CRD's half is in kube/)."""

from typing import Any

import pytest

from elasticjob_api.errors import InvalidSpec
from elasticjob_api.job import parse_job
from testing.kube.manifests import ELASTIC, MINIMAL, changed, full
from tests.integration.kube.bad_manifests import BAD, UNKNOWN_FIELDS

IGNORED_HERE = {"no-image"}
"""On one machine the image is ignored, so a manifest without one can run."""


@pytest.mark.parametrize(
    "changes", [pytest.param(p.values[0], id=p.id) for p in [*BAD, *UNKNOWN_FIELDS] if p.id not in IGNORED_HERE]
)
def test_what_the_api_server_refuses_is_refused_without_one(changes: dict[str, Any]) -> None:
    with pytest.raises(InvalidSpec):
        parse_job(changed(ELASTIC, changes))


@pytest.mark.parametrize("manifest", [MINIMAL, ELASTIC, full()])
def test_a_good_manifest_is_accepted(manifest: dict[str, Any]) -> None:
    assert parse_job(manifest).metadata.name == manifest["metadata"]["name"]


def test_every_fault_is_named_at_once_not_only_the_first() -> None:
    bad = changed(ELASTIC, {"spec.replicas": 9, "spec.maxRestarts": -1, "metadata.name": "A"})
    with pytest.raises(InvalidSpec) as refused:
        parse_job(bad)
    assert [fault.path for fault in refused.value.errors] == ["metadata.name", "spec.replicas", "spec.maxRestarts"]
