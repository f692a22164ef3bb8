"""The environment of a container, and the references that are refused because they need a cluster."""

from typing import Any

import pytest

from elasticjob_cli.local.environment import Machine, PodFacts, environment_faults, expand, resolve

_POD: dict[str, Any] = {
    "metadata": {
        "name": "digits-1-x7k2p",
        "namespace": "team-a",
        "uid": "u-1",
        "labels": {"app.kubernetes.io/name": "digits"},
        "annotations": {"note": "hi"},
    },
    "spec": {
        "containers": [
            {"name": "trainer", "resources": {"limits": {"cpu": "1500m", "memory": "2Gi"}, "requests": {"cpu": "1"}}},
            {"name": "side"},
        ]
    },
}
_FACTS = PodFacts(
    pod=_POD,
    node_name="local-1",
    pod_ip="127.0.0.1",
    host_ip="127.0.0.9",
    machine=Machine(cpus=4, memory_bytes=8 << 30),
)


def _value(source: dict[str, Any], container: int = 0) -> str | None:
    body = {**_POD["spec"]["containers"][container], "env": [{"name": "X", "valueFrom": source}]}
    return resolve(body, _FACTS).get("X")


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("metadata.name", "digits-1-x7k2p"),
        ("metadata.namespace", "team-a"),
        ("metadata.uid", "u-1"),
        ("metadata.labels['app.kubernetes.io/name']", "digits"),
        ("metadata.annotations['note']", "hi"),
        ("metadata.labels['absent']", ""),
        ("status.podIP", "127.0.0.1"),
        ("status.hostIP", "127.0.0.9"),
        ("spec.nodeName", "local-1"),
        ("spec.serviceAccountName", "default"),
    ],
)
def test_a_field_of_the_pod_becomes_a_variable(path: str, value: str) -> None:
    assert _value({"fieldRef": {"fieldPath": path}}) == value


@pytest.mark.parametrize(
    ("container", "reference", "value"),
    [
        pytest.param(0, {"resource": "limits.cpu"}, "2", id="a limit, rounded up"),
        pytest.param(0, {"resource": "limits.cpu", "divisor": "1m"}, "1500", id="in millicores"),
        pytest.param(0, {"resource": "limits.memory", "divisor": "1Mi"}, "2048", id="in mebibytes"),
        pytest.param(0, {"resource": "requests.memory"}, str(2 << 30), id="a request not given is the limit"),
        pytest.param(1, {"resource": "limits.cpu"}, "4", id="a limit not given is the machine"),
        pytest.param(1, {"resource": "limits.cpu", "containerName": "trainer"}, "2", id="of another container"),
    ],
)
def test_a_resource_becomes_a_variable(container: int, reference: dict[str, str], value: str) -> None:
    assert _value({"resourceFieldRef": reference}, container) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("plain", "plain"),
        ("$(A)/x", "1/x"),
        ("$(A)$(B)", "12"),
        ("$(UNKNOWN)", "$(UNKNOWN)"),
        ("$$(A)", "$(A)"),
        ("$$$(A)", "$1"),
        ("$A ${A} 5$", "$A ${A} 5$"),
    ],
)
def test_references_to_variables_are_expanded(text: str, value: str) -> None:
    assert expand(text, {"A": "1", "B": "2"}) == value


def test_a_variable_may_use_those_above_it_only() -> None:
    env = [{"name": "A", "value": "$(B)"}, {"name": "B", "value": "b"}, {"name": "C", "value": "$(B)c"}]
    assert resolve({"env": env}, _FACTS) == {"A": "$(B)", "B": "b", "C": "bc"}


def test_a_variable_without_a_value_is_empty() -> None:
    assert resolve({"env": [{"name": "A"}]}, _FACTS) == {"A": ""}


def test_an_optional_reference_to_a_missing_object_is_left_out() -> None:
    source = {"configMapKeyRef": {"name": "settings", "key": "x", "optional": True}}
    assert _value(source) is None


def _faults(container: dict[str, Any]) -> list[str]:
    return [str(fault) for fault in environment_faults({"containers": [container]}, "spec")]


@pytest.mark.parametrize(
    ("container", "words"),
    [
        pytest.param(
            {"env": [{"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]},
            "spec.containers[0].env[0].valueFrom.secretKeyRef: variable 'TOKEN' from a Secret can be read only",
            id="a secret",
        ),
        pytest.param(
            {"envFrom": [{"configMapRef": {"name": "settings"}}]},
            "spec.containers[0].envFrom[0].configMapRef: the variables of a ConfigMap 'settings' can be read only",
            id="all of a config map",
        ),
        pytest.param(
            {"env": [{"name": "X", "valueFrom": {"fieldRef": {"fieldPath": "spec.hostname"}}}]},
            "fieldPath: 'spec.hostname' is not one of metadata.name",
            id="an unknown field",
        ),
        pytest.param(
            {"env": [{"name": "X", "valueFrom": {"resourceFieldRef": {"resource": "limits.gpu"}}}]},
            "resource: is not limits or requests of cpu",
            id="an unknown resource",
        ),
        pytest.param(
            {"env": [{"name": "X", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu", "divisor": "0"}}}]},
            "divisor: must be more than 0",
            id="a divisor of nothing",
        ),
        pytest.param({"env": [{"value": "x"}]}, "spec.containers[0].env[0].name: is required", id="no name"),
    ],
)
def test_a_reference_that_needs_a_cluster_is_refused_by_one_sentence(container: dict[str, Any], words: str) -> None:
    [fault] = _faults(container)
    assert words in fault


def test_optional_sources_are_not_refused() -> None:
    assert _faults({"envFrom": [{"secretRef": {"name": "s", "optional": True}}]}) == []
