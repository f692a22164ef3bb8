"""Status fields of a newer operator are preserved when this version writes the status."""

from typing import Any

import pytest

from elasticjob_api.job import status_to_dict
from elasticjob_api.status import Condition, JobStatus, LastFailure, NodeStatus, ProgressStatus
from elasticjob_operator.policy.status.preserved_fields import with_preserved_fields
from testing.newer_version import NEW_FIELD, NEW_VALUE, newer_json

NOW = "2026-01-01T00:00:00Z"
STATUS = JobStatus(
    replicas=2,
    conditions=(Condition(type="Running", status="True", reason="R", last_transition_time=NOW),),
    nodes=(NodeStatus(name="a", pod_name="a-x", rank=0), NodeStatus(name="b", pod_name="b-x", rank=1)),
    last_failure=LastFailure(time=NOW, round=1, pod_name="p", rank=0, local_rank=0, exit_code=1),
    progress=ProgressStatus(step=1, metrics={"loss": "1"}),
)
WRITTEN = status_to_dict(STATUS)
NEWER: dict[str, Any] = newer_json(WRITTEN)


def test_an_unchanged_status_keeps_all_unknown_fields() -> None:
    assert with_preserved_fields(NEWER, WRITTEN) == NEWER


def test_a_status_without_unknown_fields_is_written_unchanged() -> None:
    assert with_preserved_fields(WRITTEN, WRITTEN) == WRITTEN
    assert with_preserved_fields({}, WRITTEN) == WRITTEN


def test_an_unknown_field_at_the_top_level_is_always_preserved() -> None:
    assert with_preserved_fields(NEWER, status_to_dict(JobStatus()))[NEW_FIELD] == NEW_VALUE


def test_a_changed_object_loses_its_unknown_fields() -> None:
    changed = {**WRITTEN, "nodes": [WRITTEN["nodes"][1], {**WRITTEN["nodes"][0], "rank": 5}], "progress": {"step": 2}}
    merged = with_preserved_fields(NEWER, changed)
    assert merged["nodes"] == [NEWER["nodes"][1], {**WRITTEN["nodes"][0], "rank": 5}]
    assert merged["progress"] == {"step": 2}
    assert merged["lastFailure"] == NEWER["lastFailure"]


def test_a_removed_field_is_not_restored() -> None:
    reduced = {name: value for name, value in WRITTEN.items() if name not in {"lastFailure", "nodes"}}
    assert {"lastFailure", "nodes"}.isdisjoint(with_preserved_fields(NEWER, reduced))


@pytest.mark.parametrize("stored", [{"nodes": 5, "lastFailure": [], "progress": None}, {"nodes": [None, 3]}])
def test_invalid_values_are_overwritten(stored: dict[str, Any]) -> None:
    assert with_preserved_fields(stored, WRITTEN) == WRITTEN
