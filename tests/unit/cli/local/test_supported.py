"""Shapes of a pod template that would cause an error later."""

from typing import Any

import pytest

from elasticjob_cli.local.supported import pod_faults

_TRAINER = {"name": "trainer", "command": ["true"]}


def _faults(container: dict[str, Any] | None = None, **spec: Any) -> list[str]:
    return [str(fault) for fault in pod_faults({"containers": [{**_TRAINER, **(container or {})}], **spec}, "s")]


def test_a_plain_pod_can_run() -> None:
    assert _faults() == []


def test_a_missing_field_is_equal_to_null() -> None:
    assert _faults({"env": None, "volumeMounts": None, "args": None}, volumes=None, initContainers=None) == []


@pytest.mark.parametrize(
    ("container", "fault"),
    [
        ({"args": ["--n", 3]}, "s.containers[0].args[1]: is 3; it must be a text in quotes"),
        ({"args": "--n 3"}, "s.containers[0].args: is '--n 3'; it must be a list in brackets, as [--n, 3]"),
        ({"env": {"A": "1"}}, "s.containers[0].env: is {'A': '1'}; it must be a list in brackets, as [...]"),
        ({"env": ["A=1"]}, "s.containers[0].env[0]: is 'A=1'; it must be an object"),
        ({"env": [{"name": "A", "value": 1}]}, "s.containers[0].env[0].value: is 1; it must be a text in quotes"),
        ({"env": [{"name": "A", "valueFrom": "x"}]}, "s.containers[0].env[0].valueFrom: is 'x'; it must be an object"),
        ({"volumeMounts": ["/data"]}, "s.containers[0].volumeMounts[0]: is '/data'; it must be an object"),
        ({"name": ""}, "s.containers[0].name: is required"),
        ({"resources": {"limits": 3}}, "s.containers[0].resources.limits: is 3; it must be an object"),
    ],
)
def test_a_container_of_another_shape_is_refused(container: dict[str, Any], fault: str) -> None:
    assert _faults(container) == [fault]


def test_a_grace_period_is_a_whole_number() -> None:
    assert _faults(terminationGracePeriodSeconds=True) == [
        "s.terminationGracePeriodSeconds: is True; it must be a whole number"
    ]


def test_a_sidecar_is_refused() -> None:
    [fault] = _faults(initContainers=[{**_TRAINER, "restartPolicy": "Always"}])
    assert fault.startswith("s.initContainers[0].restartPolicy: makes it a sidecar")
