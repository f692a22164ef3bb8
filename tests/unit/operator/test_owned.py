"""An existing object: when another one is applied over it, and when no write is needed."""

from typing import Any

import pytest

from elasticjob_operator.cluster import owned
from elasticjob_operator.cluster.connection import FIELD_MANAGER
from elasticjob_operator.errors import Conflict
from elasticjob_operator.model.cluster_interface import Object, Resource
from elasticjob_operator.render.service import render_service
from testing import builders

OURS = render_service(builders.job())
[_OWNER] = OURS["metadata"]["ownerReferences"]


def stored(spec: dict[str, Any] | None = None, *, manager: str = FIELD_MANAGER, **metadata: Any) -> Object:
    """The job's Service as an API server has it, with its defaults."""
    applied: dict[str, Any] = {f"f:{name}": {} for name in {**OURS["spec"], **(spec or {})}}
    entry = {"manager": manager, "operation": "Apply", "fieldsV1": {"f:spec": applied}}
    stamps = {"uid": "s1", "resourceVersion": "7", "managedFields": [entry], **metadata}
    defaults = {"type": "ClusterIP", "sessionAffinity": "None"}
    return {**OURS, "metadata": {**OURS["metadata"], **stamps}, "spec": {**defaults, **OURS["spec"], **(spec or {})}}


def test_an_apply_names_the_uid_of_the_owners_object() -> None:
    assert owned.bind_to_existing(Resource.SERVICE, OURS, stored())["metadata"] == {**OURS["metadata"], "uid": "s1"}


def test_an_object_of_an_earlier_job_of_that_name_is_taken_over() -> None:
    """The garbage collector may not have deleted it yet; it spares an object with an existing owner."""
    group = str(_OWNER["apiVersion"]).partition("/")[0]
    left = stored(ownerReferences=[{**_OWNER, "uid": "of a predecessor", "apiVersion": f"{group}/v0"}])
    assert owned.bind_to_existing(Resource.SERVICE, OURS, left)["metadata"] == {**OURS["metadata"], "uid": "s1"}
    assert not owned.is_applied(OURS, left, FIELD_MANAGER)


@pytest.mark.parametrize(
    "owners",
    [
        None,
        [],
        [{**_OWNER, "name": "another"}],
        [{**_OWNER, "kind": "StatefulSet"}],
        [{**_OWNER, "apiVersion": "elastic.example.com/v1alpha1"}],
    ],
)
def test_an_object_of_another_owner_or_without_one_is_left_alone(owners: Any) -> None:
    with pytest.raises(Conflict, match="has another owner: delete or rename it"):
        owned.bind_to_existing(Resource.SERVICE, OURS, stored(ownerReferences=owners))


@pytest.mark.parametrize(
    ("there", "same"),
    [
        (stored(), True),
        (stored(labels={**OURS["metadata"]["labels"], "more": "theirs"}), True),
        (stored({"selector": {"app": "theirs"}}), False),
        (stored(labels={}), False),
        (stored({"applied by an older version": 1}), False),
        (stored(manager="kubectl"), False),
        ({**stored(), "metadata": {**stored()["metadata"], "managedFields": None}}, False),
    ],
)
def test_an_object_that_has_all_fields_is_not_written_again(there: Object, same: bool) -> None:  # noqa: FBT001
    assert owned.is_applied(owned.bind_to_existing(Resource.SERVICE, OURS, there), there, FIELD_MANAGER) is same
