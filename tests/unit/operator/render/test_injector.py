"""The init container that brings the agent: quotas and Pod Security must not refuse the pod for it."""

from typing import Any

from elasticjob_api.spec import Agent, AgentMode
from elasticjob_operator.render.injector import injectors
from tests.unit.operator.builders import SETTINGS, job


def injector(**agent: Any) -> dict[str, Any]:
    (found,) = injectors(job(agent=Agent(**agent)), SETTINGS)
    return found


def test_a_provided_agent_is_not_injected() -> None:
    assert injectors(job(agent=Agent(mode=AgentMode.PROVIDED)), SETTINGS) == []


def test_the_operators_image_is_used_unless_the_job_names_one() -> None:
    assert injector()["image"] == SETTINGS.agent_image
    assert injector(image="mirror/agent:1")["image"] == "mirror/agent:1"


def test_a_quota_finds_requests_and_limits() -> None:
    resources = injector()["resources"]
    assert set(resources["requests"]) == set(resources["limits"]) == {"cpu", "memory"}


def test_restricted_pod_security_is_kept() -> None:
    context = injector()["securityContext"]
    assert context["allowPrivilegeEscalation"] is False
    assert context["runAsNonRoot"] is True
    assert context["capabilities"] == {"drop": ["ALL"]}
    assert context["seccompProfile"] == {"type": "RuntimeDefault"}


def test_it_installs_into_the_volume_that_it_mounts() -> None:
    found = injector()
    (mount,) = found["volumeMounts"]
    assert found["command"] == ["/opt/elasticjob/bin/elasticjob-agent", "--install", mount["mountPath"]]
    assert mount["mountPath"] != "/opt/elasticjob"  # its own payload is there
