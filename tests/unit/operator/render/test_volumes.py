"""The operator's volumes in a training pod: shared memory, logs, the agent."""

from typing import Any

import pytest

from elasticjob_api.spec import Agent, AgentMode, Keep
from elasticjob_operator.render.volumes import mounts, volumes
from testing.builders import job, template


def rendered(agent: Agent | None = None, **container: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return volumes and mounts by the volume's name."""
    of = job(template=template(**container), agent=agent or Agent())
    by_volume = {part["name"]: part for part in volumes(of, container)}
    return by_volume, {part["name"]: part for part in mounts(of, container)}


def test_shared_memory_is_a_memory_volume_without_a_limit_of_its_own() -> None:
    volume, mount = rendered()
    assert volume["elasticjob-shm"] == {"name": "elasticjob-shm", "emptyDir": {"medium": "Memory"}}
    assert mount["elasticjob-shm"]["mountPath"] == "/dev/shm"


def test_the_size_of_shared_memory_is_a_field() -> None:
    volume, _ = rendered(Agent(shm_size_limit="8Gi"))
    assert volume["elasticjob-shm"]["emptyDir"] == {"medium": "Memory", "sizeLimit": "8Gi"}


@pytest.mark.parametrize("path", ["/dev/shm", "/dev/shm/"])
def test_the_templates_own_shared_memory_is_kept(path: str) -> None:
    volume, mount = rendered(volumeMounts=[{"name": "own", "mountPath": path}])
    assert "elasticjob-shm" not in volume
    assert "elasticjob-shm" not in mount


def test_the_log_volume_is_writable_and_limited() -> None:
    volume, mount = rendered(Agent(log_size_limit="512Mi"))
    assert volume["elasticjob-logs"]["emptyDir"] == {"sizeLimit": "512Mi"}
    assert mount["elasticjob-logs"] == {"name": "elasticjob-logs", "mountPath": "/var/log/elasticjob"}


def test_the_injected_agent_is_mounted_read_only_at_the_path_that_it_was_built_for() -> None:
    volume, mount = rendered()
    assert volume["elasticjob-agent"]["emptyDir"] == {}
    assert (mount["elasticjob-agent"]["mountPath"], mount["elasticjob-agent"]["readOnly"]) == ("/opt/elasticjob", True)


def test_a_provided_agent_needs_no_volume() -> None:
    volume, mount = rendered(Agent(mode=AgentMode.PROVIDED))
    assert set(volume) == set(mount) == {"elasticjob-logs", "elasticjob-shm"}


def test_kept_steps_have_a_memory_volume_of_their_own_size() -> None:
    of, container = job(keep=Keep(size_limit="16Gi")), template()["spec"]["containers"][0]
    [volume] = [part for part in volumes(of, container) if part["name"] == "elasticjob-keep"]
    [mount] = [part for part in mounts(of, container) if part["name"] == "elasticjob-keep"]
    assert volume["emptyDir"] == {"medium": "Memory", "sizeLimit": "16Gi"}
    assert mount == {"name": "elasticjob-keep", "mountPath": "/var/run/elasticjob/keep"}


def test_a_job_that_keeps_no_steps_has_no_volume_for_them() -> None:
    volume, mount = rendered()
    assert "elasticjob-keep" not in {*volume, *mount}
