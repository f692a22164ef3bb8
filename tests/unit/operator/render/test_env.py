"""The environment of the agent: its keys, its identity, and the user's variables."""

from dataclasses import replace
from typing import Any

import pytest

from elasticjob_api.bootstrap import bootstrap_of
from elasticjob_api.constants import WarmStart
from elasticjob_api.records import SpecRecord
from elasticjob_api.spec import Agent, Keep, Rendezvous
from elasticjob_operator.render.env import agent_env
from testing.builders import SETTINGS, job, template


def listed(slot: int = 0, container: dict[str, Any] | None = None, **spec: Any) -> list[dict[str, Any]]:
    given = container or {}
    return agent_env(job(template=template(**given), **spec), given, slot=slot, settings=SETTINGS)


def values(slot: int = 0, container: dict[str, Any] | None = None, **spec: Any) -> dict[str, str]:
    return {env["name"]: env["value"] for env in listed(slot, container, **spec) if "value" in env}


def test_the_agent_has_its_job_its_slot_and_its_etcd() -> None:
    found = values(3, nproc_per_node=2)
    assert found["ELASTICJOB_PREFIX"] == "/elasticjob/c/ns/j/job-uid"
    assert found["ELASTICJOB_ETCD_ENDPOINTS"] == "etcd-0:2379,etcd-1:2379"
    assert (found["ELASTICJOB_SLOT"], found["ELASTICJOB_NPROC_PER_NODE"]) == ("3", "2")
    assert (found["ELASTICJOB_JOB"], found["ELASTICJOB_JOB_UID"]) == ("j", "job-uid")


@pytest.mark.parametrize(("seconds", "text"), [(600.0, "600"), (5.0, "5"), (1.5, "1.5"), (1e6, "1000000")])
def test_the_agent_has_the_join_timeout(seconds: float, text: str) -> None:
    assert values(rendezvous=Rendezvous(join_timeout_s=seconds))["ELASTICJOB_JOIN_TIMEOUT_SECONDS"] == text


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("ELASTICJOB_POD_NAME", "metadata.name"),
        ("ELASTICJOB_POD_UID", "metadata.uid"),
        ("ELASTICJOB_POD_IP", "status.podIP"),
        ("ELASTICJOB_NODE_NAME", "spec.nodeName"),
    ],
)
def test_values_that_only_the_cluster_has_come_from_the_downward_api(name: str, path: str) -> None:
    assert {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}} in listed()


def test_the_users_variables_come_first_and_unchanged() -> None:
    own = [{"name": "A", "value": "1"}, {"name": "B", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]
    assert listed(container={"env": own})[:2] == own


def test_no_variable_is_set_twice() -> None:
    given = {"env": [{"name": "OMP_NUM_THREADS", "value": "8"}]}
    found = [env["name"] for env in listed(container=given, nproc_per_node=4)]
    assert sorted(found) == sorted(set(found))


@pytest.mark.parametrize(("nproc", "threads"), [(1, None), (2, "1")])
def test_several_workers_of_a_pod_get_one_thread_each(nproc: int, threads: str | None) -> None:
    assert values(nproc_per_node=nproc).get("OMP_NUM_THREADS") == threads


def test_the_users_number_of_threads_is_not_changed() -> None:
    given = {"env": [{"name": "OMP_NUM_THREADS", "value": "8"}]}
    assert values(container=given, nproc_per_node=4)["OMP_NUM_THREADS"] == "8"


@pytest.mark.parametrize(
    ("limits", "workers"),
    [({}, "1"), ({"nvidia.com/gpu": "4"}, "4"), ({"amd.com/gpu": 2}, "2"), ({"nvidia.com/mig-1g.5gb": "3"}, "3")],
)
def test_auto_is_one_worker_for_each_gpu(limits: dict[str, Any], workers: str) -> None:
    assert values(container={"resources": {"limits": limits}})["ELASTICJOB_NPROC_PER_NODE"] == workers


@pytest.mark.parametrize(
    ("container", "path"), [({}, "/dev/termination-log"), ({"terminationMessagePath": "/tmp/why"}, "/tmp/why")]
)
def test_the_root_cause_is_written_to_the_path_that_the_kubelet_reads(container: dict[str, Any], path: str) -> None:
    assert values(container=container)["ELASTICJOB_TERMINATION_LOG"] == path


def test_the_workers_use_the_interface_in_the_manifest_unless_a_variable_names_another() -> None:
    agent = Agent(interface="net1")
    assert values(agent=agent)["NCCL_SOCKET_IFNAME"] == "net1"
    own = {"env": [{"name": "NCCL_SOCKET_IFNAME", "value": "eth0"}]}
    assert [env["value"] for env in listed(0, own, agent=agent) if env["name"] == "NCCL_SOCKET_IFNAME"] == ["eth0"]
    assert "GLOO_SOCKET_IFNAME" not in values()


def test_the_agent_has_the_interface_of_its_own_address() -> None:
    assert values(agent=Agent(interface="net1"))["ELASTICJOB_INTERFACE"] == "net1"
    assert "ELASTICJOB_INTERFACE" not in values()


@pytest.mark.parametrize(
    ("of_job", "of_installation", "value"),
    [
        (None, WarmStart.OFF, None),  # an older agent would pass the variable on to its workers
        (None, WarmStart.AUTO, "Auto"),
        (WarmStart.AUTO, WarmStart.OFF, "Auto"),
        (WarmStart.OFF, WarmStart.AUTO, "Off"),
        (WarmStart.OFF, WarmStart.OFF, "Off"),  # it overrides a variable of the image
    ],
)
def test_the_agent_starts_workers_warm_as_its_job_or_else_the_installation_wants(
    of_job: WarmStart | None, of_installation: WarmStart, value: str | None
) -> None:
    of = job(agent=Agent(warm_start=of_job))
    found = agent_env(of, {}, slot=0, settings=replace(SETTINGS, warm_start=of_installation))
    assert [env["value"] for env in found if env["name"] == "ELASTICJOB_WARM_START"] == ([value] if value else [])


@pytest.mark.parametrize(
    ("keep", "values"),
    [
        (None, ()),
        (Keep(size_limit="1Gi"), ("/var/run/elasticjob/keep", "1073741824", "1", "268435456", "120")),
        (
            Keep(size_limit="1500Mi", copies=0, bandwidth=0, restore_timeout_s=9.0),
            ("/var/run/elasticjob/keep", "1572864000", "0", "0", "9"),
        ),
    ],
)
def test_the_agent_of_a_job_that_keeps_steps_has_its_limits_in_bytes(
    keep: Keep | None, values: tuple[str, ...]
) -> None:
    found = agent_env(job(keep=keep), {}, slot=0, settings=SETTINGS)
    kept = {env["name"]: env["value"] for env in found if env["name"].startswith("ELASTICJOB_KEEP")}
    names = ("DIR", "SIZE_LIMIT", "COPIES", "BANDWIDTH", "RESTORE_TIMEOUT_S")
    assert kept == {f"ELASTICJOB_KEEP_{name}": value for name, value in zip(names, values, strict=False)}


@pytest.mark.parametrize(
    ("has_tls", "bandwidth", "value"),
    [(False, None, "268435456"), (True, None, "134217728"), (True, "256Mi", "268435456"), (True, 0, "0")],
)
def test_copies_that_are_encrypted_have_a_default_rate_of_their_own(
    bandwidth: int | str | None, value: str, *, has_tls: bool
) -> None:
    of, settings = job(keep=Keep(size_limit="1Gi", bandwidth=bandwidth)), replace(SETTINGS, etcd_tls=has_tls)
    found = {env["name"]: env.get("value") for env in agent_env(of, {}, slot=0, settings=settings)}
    assert found["ELASTICJOB_KEEP_BANDWIDTH"] == value


@pytest.mark.parametrize(
    ("fields", "values"),
    [
        ({}, ("/ckpt/steps", "600", "2", "1")),
        ({"persist_every_s": 60.0, "persist_keep": 5, "resume": True}, ("/ckpt/steps", "60", "5", "1")),
        ({"resume": False}, ("/ckpt/steps", "600", "2", "0")),
    ],
)
def test_the_agent_of_a_job_that_persists_steps_has_the_directory_and_its_limits(
    fields: dict[str, Any], values: tuple[str, ...]
) -> None:
    keep = Keep(size_limit="1Gi", persist_to="/ckpt/steps", **fields)
    found = {env["name"]: env.get("value") for env in agent_env(job(keep=keep), {}, slot=0, settings=SETTINGS)}
    names = ("PERSIST_TO", "PERSIST_EVERY_S", "PERSIST_KEEP", "RESUME")
    assert tuple(found[f"ELASTICJOB_KEEP_{name}"] for name in names) == values


@pytest.mark.parametrize(
    ("persist_to", "step", "value"),
    [("/ckpt", 120, "120"), ("/ckpt", 0, "0"), ("/ckpt", None, None), (None, 120, None)],
)
def test_the_agent_knows_the_step_that_the_directory_must_have(
    persist_to: str | None, step: int | None, value: str | None
) -> None:
    of = job(keep=Keep(size_limit="1Gi", persist_to=persist_to))
    found = agent_env(of, {}, slot=0, settings=SETTINGS, persisted_step=step)
    assert {env["name"]: env.get("value") for env in found}.get("ELASTICJOB_KEEP_PERSISTED_STEP") == value


def test_the_agent_has_the_bootstrap_of_the_spec_that_names_its_pod() -> None:
    given: dict[str, Any] = {}
    bootstrap = bootstrap_of(SpecRecord(min=1, max=1, desired=1), 7)
    of = job(template=template(**given))
    expected = {"name": "ELASTICJOB_SPEC", "value": "7 6.0 1 SIGTERM 30.0 5.0 3 60.0 0.0 -"}
    assert expected in agent_env(of, given, slot=0, settings=SETTINGS, bootstrap=bootstrap)
    assert "ELASTICJOB_SPEC" not in values()
