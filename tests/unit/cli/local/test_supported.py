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
        ({"args": ["--n", 3]}, "s.containers[0].args[1]: 3 is not a string; put it in quotes"),
        ({"args": "--n 3"}, "s.containers[0].args: '--n 3' is not a list; write it in brackets, as [--n, 3]"),
        ({"env": {"A": "1"}}, "s.containers[0].env: {'A': '1'} is not a list; write it in brackets, as [...]"),
        ({"env": ["A=1"]}, "s.containers[0].env[0]: 'A=1' is not an object"),
        ({"env": [{"name": "A", "value": 1}]}, "s.containers[0].env[0].value: 1 is not a string; put it in quotes"),
        ({"env": [{"name": "A", "valueFrom": "x"}]}, "s.containers[0].env[0].valueFrom: 'x' is not an object"),
        ({"volumeMounts": ["/data"]}, "s.containers[0].volumeMounts[0]: '/data' is not an object"),
        ({"name": ""}, "s.containers[0].name: is required"),
        ({"resources": {"limits": 3}}, "s.containers[0].resources.limits: 3 is not an object"),
    ],
)
def test_a_container_of_another_shape_is_refused(container: dict[str, Any], fault: str) -> None:
    assert _faults(container) == [fault]


def test_a_grace_period_is_a_whole_number() -> None:
    assert _faults(terminationGracePeriodSeconds=True) == [
        "s.terminationGracePeriodSeconds: True is not a whole number"
    ]


def test_a_sidecar_is_refused() -> None:
    [fault] = _faults(initContainers=[{**_TRAINER, "restartPolicy": "Always"}])
    assert fault.startswith("s.initContainers[0].restartPolicy: makes it a sidecar")
