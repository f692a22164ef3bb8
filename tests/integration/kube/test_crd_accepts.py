"""Valid manifests: the stored content, its defaults, and unknown fields of the template."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from elasticjob_api import codec
from elasticjob_api.job import parse_job
from elasticjob_api.spec import JobSpec
from testing.kube.manifests import ELASTIC, MINIMAL, changed, full
from testing.kube.namespace import Namespace

pytestmark = pytest.mark.kube

CRD = Path(__file__).resolve().parents[3] / "crds" / "elasticjob.yaml"
DEFAULTS: dict[str, Any] = {
    "replicas": 1,
    "nprocPerNode": "auto",
    "suspend": False,
    "maxRestarts": 3,
    "backoffLimit": 6,
    "restartWindowSeconds": 0,
    "restartBackoff": {"initialSeconds": 1, "maxSeconds": 300},
    "podReplacementPolicy": "TerminatingOrFailed",
    "stuckPodTimeoutSeconds": 300,
    "lostPodTimeoutSeconds": 30,
    "cleanPodPolicy": "Running",
    "scaling": {"scaleUpDelaySeconds": 10},
    "gracefulShutdown": {"signal": "SIGTERM", "seconds": 30},
    "failureGraceSeconds": 5,
    "successPolicy": "AllWorkers",
    "scheduling": {"gang": "None"},
    "rendezvous": {"joinTimeoutSeconds": 600, "lastCallTimeoutSeconds": 5, "keepAliveSeconds": 6},
    "agent": {"mode": "Inject", "reportPeriodSeconds": 60, "logSizeLimit": "2Gi"},
}


def test_the_smallest_job_gets_every_default(namespace: Namespace) -> None:
    spec = namespace.apply(MINIMAL)["spec"]
    assert spec.pop("template") == MINIMAL["spec"]["template"]
    assert spec == DEFAULTS


def test_the_dataclasses_have_the_same_defaults() -> None:
    spec = codec.write(JobSpec(template={}), keep_defaults=True)
    unset: tuple[Any, ...] = ([], {}, {"rules": []})
    assert {name: value for name, value in spec.items() if value not in unset} == DEFAULTS


def test_the_full_job_sets_every_field() -> None:
    crd = yaml.safe_load(CRD.read_text())
    schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    # replicaStep and allowedReplicas exclude each other.
    assert set(full()["spec"]) == set(schema["properties"]) - {"allowedReplicas"}


def test_the_full_job_is_stored_as_it_was_written(namespace: Namespace) -> None:
    assert namespace.apply(full())["spec"] == full()["spec"]


def test_the_operator_parses_the_full_job_as_it_is_stored(namespace: Namespace) -> None:
    assert codec.write(parse_job(namespace.apply(full())).spec)["template"] == full()["spec"]["template"]


def test_server_side_apply_stores_the_same(namespace: Namespace) -> None:
    assert namespace.apply(full(), "--server-side")["spec"] == full()["spec"]


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"spec.allowedReplicas": [2, 4, 8]}, id="allowed-replicas"),
        pytest.param({"spec.nprocPerNode": "auto"}, id="nproc-auto"),
        pytest.param({"spec.template.spec.restartPolicy": "Never"}, id="the-restart-policy-it-gets-anyway"),
        pytest.param({"metadata.name": "a" * 51}, id="longest-name"),
        pytest.param({"spec.template.spec.containers.0.command.1": "x" * 100_000}, id="long-command"),
        pytest.param({"spec.failurePolicy": {"rules": []}}, id="no-rules"),
    ],
)
def test_a_good_manifest_is_accepted(namespace: Namespace, changes: dict[str, Any]) -> None:
    namespace.apply(changed(ELASTIC, changes))


def test_an_unknown_field_survives_in_the_template(namespace: Namespace) -> None:
    path = "spec.template.spec.containers.0.securityContext"
    stored = namespace.apply(changed(MINIMAL, {path: {"futureField": {"nested": [1]}}}))
    assert stored["spec"]["template"]["spec"]["containers"][0]["securityContext"] == {"futureField": {"nested": [1]}}
