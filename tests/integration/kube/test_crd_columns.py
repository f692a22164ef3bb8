"""The columns of `kubectl get` for a job, and the names by which it finds one."""

from typing import Any

import pytest

from testing.kube.manifests import ELASTIC
from testing.kube.namespace import Namespace

pytestmark = pytest.mark.kube

NOW = "2026-01-02T03:04:05Z"
STATUS: dict[str, Any] = {
    "phase": "Failed",
    "reason": "DeadlineExceeded",
    "message": "the job ran too long",
    "readyReplicas": 3,
    "restarts": 2,
    "rendezvousRound": 7,
    "worldSize": 6,
    "progress": {"percentage": 42},
    "conditions": [
        {"type": "Running", "status": "False", "reason": "Ended", "message": "", "lastTransitionTime": NOW},
        {"type": "Failed", "status": "True", "reason": "DeadlineExceeded", "message": "", "lastTransitionTime": NOW},
    ],
    "lastFailure": {
        "time": NOW,
        "round": 6,
        "podName": "digits-1-abcde",
        "rank": 3,
        "localRank": 1,
        "exitCode": 137,
        "signal": "SIGKILL",
        "reason": "Signal",
    },
}


@pytest.fixture
def ended(namespace: Namespace) -> Namespace:
    namespace.apply(ELASTIC)
    namespace.patch("digits", {"status": STATUS}, "--subresource=status")
    return namespace


def test_the_columns_of_a_job(ended: Namespace) -> None:
    row = ended.row()
    assert row.pop("AGE")
    shown = {"NAME": "digits", "PHASE": "Failed", "READY": "3", "DESIRED": "4", "RESTARTS": "2"}
    assert row == shown | {"REASON": "DeadlineExceeded"}


def test_the_wide_columns_of_a_job(ended: Namespace) -> None:
    row = ended.row("-o", "wide")
    names = ("MIN", "MAX", "ROUND", "WORLD", "PROGRESS", "REASON", "LAST FAILURE", "MESSAGE")
    wide = {name: row[name] for name in names}
    assert wide == {
        "MIN": "2",
        "MAX": "8",
        "ROUND": "7",
        "WORLD": "6",
        "PROGRESS": "42",
        "REASON": "DeadlineExceeded",
        "LAST FAILURE": "Signal",
        "MESSAGE": "the job ran too long",
    }


def test_a_job_without_an_operator_shows_the_desired_values(namespace: Namespace) -> None:
    namespace.apply(ELASTIC)
    row = namespace.row()
    assert (row["NAME"], row["PHASE"], row["DESIRED"]) == ("digits", "", "4")


@pytest.mark.parametrize("resource", ["ejob", "elasticjob", "elasticjobs", "elasticjobs.elasticjob.io", "all"])
def test_kubectl_finds_jobs_as(namespace: Namespace, resource: str) -> None:
    namespace.apply(ELASTIC)
    assert namespace.kubectl("get", resource, "-o", "name").split() == ["elasticjob.elasticjob.io/digits"]


def test_a_program_can_wait_for_a_final_condition(ended: Namespace) -> None:
    ended.kubectl("wait", "ejob/digits", "--for=condition=Failed", "--timeout=5s")


def test_kubectl_explain_describes_a_field(namespace: Namespace) -> None:
    said = " ".join(namespace.kubectl("explain", "ejob.spec.failureGraceSeconds").split())
    assert "Seconds that the other workers have after one failed, before SIGKILL. Default 5" in said
