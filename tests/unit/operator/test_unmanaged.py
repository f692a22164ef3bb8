"""The count of jobs that another installation or controller acts on."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.unit.operator.cluster_model import Model


@pytest.fixture
def model() -> Iterator[Model]:
    made = Model(replicas=2)
    yield made
    made.close()


def count(model: Model, **fields: Any) -> dict[tuple[str, str], int]:
    """Return the counts after a reconcile in which the job, if there is one, has these fields."""
    model.process.jobs._jobs.pop(model.key, None)
    if fields:
        model.process.jobs._jobs[model.key] = {**model.job, **fields}
    model.begin_reconcile()
    model.finish_reconcile()
    return dict(model.process.reconciler.unmanaged())


def test_a_job_of_another_installation_is_counted_until_it_is_handed_over(model: Model) -> None:
    namespace = model.key.namespace
    assert count(model, status={"installation": "there"}) == {(namespace, "OwnedByAnother"): 1}
    assert count(model, status={"installation": "there"}) == {(namespace, "OwnedByAnother"): 1}
    assert count(model, status={"installation": "here"}) == {}


def test_a_job_of_another_controller_is_counted_until_it_is_deleted(model: Model) -> None:
    managed = {**model.job["spec"], "managedBy": "example.com/other"}
    assert count(model, spec=managed) == {(model.key.namespace, "ManagedByAnother"): 1}
    assert count(model) == {}


def test_a_new_leadership_counts_from_zero(model: Model) -> None:
    assert count(model, status={"installation": "there"})
    model.process.reconciler.reset()
    assert not model.process.reconciler.unmanaged()
