"""Fields of a pod template that this project reads have the types of Kubernetes; other fields are not checked."""

from typing import Any

import pytest

from elasticjob_api.template_schema import schema_errors

GOOD: list[Any] = [
    {},
    {"metadata": None, "spec": {"containers": []}},
    {"spec": {"containers": [{"name": "c", "env": None, "resources": {"limits": {"cpu": 1, "memory": "1Gi"}}}]}},
    {"spec": {"unknown": 3, "affinity": {"podAffinity": "whatever"}, "hostNetwork": True}},
]
BAD = [
    ([], "t: is []; it must be an object"),
    ({"spec": {"containers": {}}}, "t.spec.containers: is {}; it must be a list in brackets, as [...]"),
    ({"spec": {"containers": ["c"]}}, "t.spec.containers[0]: is 'c'; it must be an object"),
    ({"spec": {"containers": [{"env": [3]}]}}, "t.spec.containers[0].env[0]: is 3; it must be an object"),
    (
        {"spec": {"containers": [{"command": "python train.py"}]}},
        "t.spec.containers[0].command: is 'python train.py'; it must be a list in brackets, as [python, train.py]",
    ),
    (
        {"spec": {"containers": [{"command": [1]}]}},
        "t.spec.containers[0].command[0]: is 1; it must be a text in quotes",
    ),
    (
        {"spec": {"containers": [{"resources": {"limits": {"cpu": []}}}]}},
        "t.spec.containers[0].resources.limits.cpu: is []; it must be a text in quotes or a whole number",
    ),
    ({"metadata": {"labels": {"a": 1}}}, "t.metadata.labels.a: is 1; it must be a text in quotes"),
    ({"spec": {"terminationGracePeriodSeconds": True}}, "it must be a whole number"),
    ({"spec": {"hostNetwork": "yes"}}, "t.spec.hostNetwork: is 'yes'; it must be true or false"),
]


@pytest.mark.parametrize("template", GOOD)
def test_a_template_of_the_right_shape(template: Any) -> None:
    assert list(schema_errors(template, "t")) == []


@pytest.mark.parametrize(("template", "why"), BAD)
def test_a_field_of_a_wrong_type_is_named_with_what_it_must_be(template: Any, why: str) -> None:
    (fault,) = schema_errors(template, "t")
    assert why in str(fault)
