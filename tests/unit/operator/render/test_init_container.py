"""The init container that copies the agent: quotas and Pod Security must not reject the pod because of it."""

from typing import Any

import pytest

from elasticjob_api.spec import Agent, AgentMode
from elasticjob_operator.model.revision import wanted_revision
from elasticjob_operator.render.init_container import init_containers
from testing.builders import SETTINGS, job, template


def injector(**agent: Any) -> dict[str, Any]:
    of = job(agent=Agent(**agent))
    (found,) = init_containers(of, wanted_revision(of, SETTINGS).agent_image)
    return found


def test_a_provided_agent_is_not_injected() -> None:
    assert init_containers(job(agent=Agent(mode=AgentMode.PROVIDED)), SETTINGS.agent_image) == []


def test_the_operators_image_is_used_unless_the_job_names_one() -> None:
    assert injector()["image"] == SETTINGS.agent_image
    assert injector(image="mirror/agent:1")["image"] == "mirror/agent:1"


def test_the_init_container_has_requests_and_limits_for_quotas() -> None:
    resources = injector()["resources"]
    assert set(resources["requests"]) == set(resources["limits"]) == {"cpu", "memory"}


@pytest.mark.parametrize(
    ("resources", "is_guaranteed"),
    [
        ({"limits": {"cpu": "4", "memory": "8Gi", "nvidia.com/gpu": "1"}}, True),
        ({"limits": {"cpu": 4, "memory": "8Gi"}, "requests": {"cpu": "4", "memory": "8Gi"}}, True),
        ({"limits": {"cpu": "4", "memory": "8Gi"}, "requests": {"cpu": "1"}}, False),
        ({"limits": {"memory": "8Gi"}}, False),
        (None, False),
    ],
)
def test_the_init_container_leaves_a_pod_guaranteed(resources: dict[str, Any] | None, *, is_guaranteed: bool) -> None:
    """Kubernetes counts init containers, too: each container needs limits that are equal to its requests."""
    given = template()
    given["spec"]["containers"][0]["resources"] = resources
    (found,) = init_containers(job(template=given), SETTINGS.agent_image)
    chosen = found["resources"]
    assert (chosen["requests"] == chosen["limits"]) is is_guaranteed
    if is_guaranteed:  # a pod needs the larger one of both, so this makes it no larger
        assert {name: str(value) for name, value in chosen["limits"].items()} == {"cpu": "4", "memory": "8Gi"}


def test_the_init_container_complies_with_restricted_pod_security() -> None:
    context = injector()["securityContext"]
    assert context["allowPrivilegeEscalation"] is False
    assert context["runAsNonRoot"] is True
    assert context["capabilities"] == {"drop": ["ALL"]}
    assert context["seccompProfile"] == {"type": "RuntimeDefault"}


def test_the_init_container_of_a_root_pod_runs_as_another_user() -> None:
    """A kubelet never starts a container with runAsNonRoot as the pod's user 0."""
    root = template()
    root["spec"]["securityContext"] = {"runAsUser": 0}
    (found,) = init_containers(job(template=root), SETTINGS.agent_image)
    assert (found["securityContext"]["runAsNonRoot"], found["securityContext"]["runAsUser"]) == (True, 65532)


@pytest.mark.parametrize("context", [None, {}, {"runAsUser": 1000}, {"fsGroup": 0}])
def test_the_init_container_of_any_other_pod_has_no_user(context: dict[str, int] | None) -> None:
    """A policy that chooses the user by namespace rejects a fixed one."""
    other = template()
    other["spec"]["securityContext"] = context
    (found,) = init_containers(job(template=other), SETTINGS.agent_image)
    assert "runAsUser" not in found["securityContext"]


def test_the_init_container_installs_into_the_volume_that_it_mounts() -> None:
    found = injector()
    (mount,) = found["volumeMounts"]
    assert found["command"] == ["/opt/elasticjob/bin/elasticjob-agent", "--install", mount["mountPath"]]
    assert mount["mountPath"] != "/opt/elasticjob"  # its own payload is there
