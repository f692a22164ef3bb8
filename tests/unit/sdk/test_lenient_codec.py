"""A status of a newer operator is read without the fields that this version does not know."""

import pytest

from elasticjob.errors import Unreadable
from elasticjob.lenient_codec import read_known
from elasticjob_api.constants import Phase
from elasticjob_api.spec import JobSpec
from elasticjob_api.status import JobStatus


def test_fields_of_a_newer_version_are_left_out_at_every_depth() -> None:
    newer = {
        "phase": "Running",
        "mood": "good",
        "workerStates": {"running": 2, "dreaming": 1},
        "nodes": [{"name": "a", "podName": "a-x", "zone": "z"}],
        "lastFailure": {"time": "", "round": 1, "podName": "p", "rank": 0, "localRank": 0, "exitCode": 1, "x": 2},
    }
    status = read_known(JobStatus, newer, "status")
    assert (status.phase, status.worker_states.running, status.nodes[0].pod_name) == (Phase.RUNNING, 2, "a-x")
    assert status.last_failure is not None


def test_a_missing_status_is_an_empty_one() -> None:
    assert read_known(JobStatus, None, "status") == JobStatus()


def test_a_pod_template_is_kept_whole() -> None:
    spec = read_known(JobSpec, {"template": {"spec": {"anything": [1]}}, "newer": 1}, "spec")
    assert spec.template == {"spec": {"anything": [1]}}


def test_a_phase_of_a_newer_version_is_a_plain_text() -> None:
    assert read_known(JobStatus, {"phase": "Dreaming"}, "status").phase == "Dreaming"


def test_an_invalid_status_is_reported_with_its_field_and_the_cure() -> None:
    with pytest.raises(Unreadable, match=r"status\.replicas: 'x' is not a whole number; .*install the same version"):
        read_known(JobStatus, {"replicas": "x"}, "status")
