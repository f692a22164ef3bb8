"""The job that an object or a key belongs to."""

from typing import Any

import pytest

from elasticjob_api.keys import Keys
from elasticjob_operator.model import job_key
from elasticjob_operator.model.job_key import JobKey

KEY = JobKey("ns", "j", "u")
LABELS = {"elasticjob.io/job-name": "j", "elasticjob.io/job-uid": "u"}


def obj(**metadata: Any) -> dict[str, Any]:
    return {"metadata": {"namespace": "ns", **metadata}}


def test_a_job_is_identified_by_namespace_name_and_uid() -> None:
    assert job_key.key_of_job(obj(name="j", uid="u")) == KEY


def test_a_job_that_was_created_again_has_another_key() -> None:
    assert job_key.key_of_job(obj(name="j", uid="u2")) != KEY


def owned_by(*uids: str) -> list[dict[str, Any]]:
    return [{"kind": "ElasticJob", "name": "j", "uid": uid} for uid in uids]


def test_a_pod_belongs_to_the_job_of_its_labels_that_owns_it() -> None:
    assert job_key.key_of_pod(obj(name="p", labels=LABELS, ownerReferences=owned_by("other", "u"))) == KEY


@pytest.mark.parametrize("owners", [None, [], owned_by("the-uid-of-a-replica-set")])
def test_a_pod_with_copied_labels_and_another_owner_belongs_to_no_job(owners: list[dict[str, Any]] | None) -> None:
    copied = obj(name="p", labels=LABELS, ownerReferences=owners)
    assert job_key.key_of_pod(copied) is None
    assert job_key.key_of_labels(copied) == KEY


@pytest.mark.parametrize("labels", [None, {}, {"app": "x"}, *({name: value} for name, value in LABELS.items())])
def test_a_pod_without_the_labels_belongs_to_no_job(labels: dict[str, str] | None) -> None:
    assert job_key.key_of_pod(obj(name="p", labels=labels, ownerReferences=owned_by("u"))) is None


def test_every_key_of_a_job_has_the_job_in_it() -> None:
    keys: Keys = KEY.keys("c")
    for key in (keys.spec, keys.rendezvous_state, keys.node(3, "00000001"), keys.report(3, "00000001")):
        assert job_key.key_of_etcd_key(key) == KEY


@pytest.mark.parametrize("key", ["", "/", "/other/c/ns/j/u/c/spec", "/elasticjob/c/ns/j", "/elasticjob/c/ns/j/u"])
def test_any_other_key_has_no_job(key: str) -> None:
    assert job_key.key_of_etcd_key(key) is None


def test_the_text_of_a_key_is_namespace_and_name() -> None:
    assert str(KEY) == "ns/j"
