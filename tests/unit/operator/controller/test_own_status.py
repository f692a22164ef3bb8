"""A job that changed only by the operator's own write of progress needs no reconcile."""

from collections.abc import Iterator
from typing import Any

import pytest

from elasticjob_operator.model.cluster_interface import Object
from elasticjob_operator.model.job_state import JobState
from tests.unit.operator.cluster_model import Model


@pytest.fixture
def model() -> Iterator[Model]:
    made = Model(replicas=1)
    made.quiesce()
    yield made
    made.close()


def cached(model: Model) -> Object:
    found = model.process.jobs.get(model.key)
    assert found is not None
    return found


def written(model: Model, *, progress_only: bool = True) -> JobState:
    """Return the job's state after a write of the status."""
    state = model.process.reconciler._job_states[model.key]
    state.last_write_was_progress_only = progress_only
    return state


def needs_reconcile(model: Model, **changes: Any) -> bool:
    """Return whether these fields of a new version need a reconcile."""
    before = cached(model)
    version = {**before["metadata"], "resourceVersion": "999"}
    return model.process.reconciler.job_changed(model.key, before, {**before, "metadata": version, **changes})


def test_an_own_write_of_progress_needs_no_reconcile_and_is_in_memory_once(model: Model) -> None:
    status = written(model).written_status
    assert not needs_reconcile(model, status={**status})
    assert cached(model)["status"] is status


def test_an_own_write_of_more_than_progress_needs_a_reconcile(model: Model) -> None:
    assert needs_reconcile(model, status=written(model, progress_only=False).written_status)


def test_another_status_or_spec_needs_a_reconcile(model: Model) -> None:
    status = written(model).written_status
    assert needs_reconcile(model, status={**status, "phase": "Other"})
    assert needs_reconcile(model, status=status, spec={**cached(model)["spec"], "replicas": 2})


def test_a_deletion_and_a_new_object_need_a_reconcile(model: Model) -> None:
    written(model)
    assert model.process.reconciler.job_changed(model.key, cached(model), None)
    assert model.process.reconciler.job_changed(model.key, None, cached(model))
