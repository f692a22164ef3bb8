"""The installation that a job belongs to, according to its status and its pods."""

from typing import Any

import pytest

from elasticjob_operator.model.pod import Pod
from elasticjob_operator.policy.lifecycle.installation import (
    Ownership,
    installation_of,
    is_managed,
    is_orphaning,
    owned_by_another,
    ownership,
)
from testing.builders import pod

PREFIX = "/elasticjob/c/ns/j/u"


def obj(status: dict[str, Any] | None = None, spec: dict[str, Any] | None = None, **metadata: Any) -> dict[str, Any]:
    return {"metadata": {"name": "j", "uid": "u", **metadata}, "spec": spec or {}, "status": status}


def ownership_of(
    status: dict[str, Any] | None, *pods: Pod, claimed: bool = False, installation: str = "here"
) -> Ownership:
    return ownership(obj(status), pods, installation=installation, prefix=PREFIX, claimed=claimed)


def test_a_job_belongs_to_the_installation_that_its_status_names() -> None:
    assert ownership_of({"installation": "here"}) is Ownership.OWNED
    assert ownership_of({"installation": "there"}) is Ownership.FOREIGN


def test_the_name_of_another_installation_that_replaced_ours_counts() -> None:
    assert ownership_of({"installation": "there"}, claimed=True) is Ownership.FOREIGN


def test_a_claimed_job_is_ours_before_the_cache_has_our_name() -> None:
    assert ownership_of({"phase": "Running"}, claimed=True) is Ownership.OWNED


@pytest.mark.parametrize("status", [None, {}, {"phase": "Running", "selector": "elasticjob.io/job-uid=u"}])
@pytest.mark.parametrize(
    ("pods", "found"),
    [
        pytest.param((), Ownership.UNCLAIMED, id="no-pods"),
        pytest.param((pod(),), Ownership.UNCLAIMED, id="pods-without-information"),
        pytest.param((pod(prefix=PREFIX),), Ownership.UNCLAIMED, id="our-keys"),
        pytest.param((pod(prefix=PREFIX, installation="here"),), Ownership.UNCLAIMED, id="our-pods"),
        pytest.param((pod(), pod(1, prefix="/elasticjob/d/ns/j/u")), Ownership.FOREIGN, id="other-keys"),
        pytest.param((pod(prefix=PREFIX, installation="there"),), Ownership.FOREIGN, id="pods-of-another"),
    ],
)
def test_the_pods_decide_about_a_job_without_an_installation(
    status: dict[str, Any] | None, pods: tuple[Pod, ...], found: Ownership
) -> None:
    assert ownership_of(status, *pods) is found


def test_a_job_with_our_name_is_ours_even_with_foreign_pods_after_a_handover() -> None:
    assert ownership_of({"installation": "here"}, pod(prefix="/other", installation="there")) is Ownership.OWNED


def test_a_status_that_was_restored_with_another_object_names_no_installation() -> None:
    restored = obj({"installation": "there", "selector": "elasticjob.io/job-uid=of-before"})
    assert installation_of(restored) == ""
    assert installation_of(obj({"installation": "there"})) == "there", "claimed, and no other field was written yet"


def test_without_installations_every_job_is_ours() -> None:
    assert ownership_of({"installation": "there"}, installation="") is Ownership.OWNED


@pytest.mark.parametrize(
    ("manager", "name", "found"),
    [
        (None, "", True),
        ("", "", True),
        ("elasticjob.io/operator", "", True),
        ("elasticjob.io/operator", "example.com/a", True),
        ("example.com/a", "example.com/a", True),
        ("example.com/b", "example.com/a", False),
        ("example.com/b", "", False),
    ],
)
def test_managed_by_names_any_installation_or_a_particular_one(manager: str | None, name: str, *, found: bool) -> None:
    assert is_managed(obj(spec={"managedBy": manager}), name) is found


def test_only_a_deletion_that_orphans_keeps_the_pods() -> None:
    assert is_orphaning(obj(deletionTimestamp="2026-01-01T00:00:00Z", finalizers=["orphan"]))
    assert not is_orphaning(obj(deletionTimestamp="2026-01-01T00:00:00Z", finalizers=["foregroundDeletion"]))
    assert not is_orphaning(obj(deletionTimestamp="2026-01-01T00:00:00Z"))
    assert not is_orphaning(obj(finalizers=["orphan"]))


def test_the_event_names_both_installations() -> None:
    message = owned_by_another(obj({"installation": "there"}), "here").message
    assert "installation here ignores this job: it belongs to installation there" in message
    assert "its pods were created by another installation" in owned_by_another(obj(), "here").message
