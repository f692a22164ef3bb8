"""The fields of the spec that the template hash covers, and those that may change without another hash."""

from dataclasses import replace
from typing import Any

import pytest

from elasticjob_api.constants import WarmStart
from elasticjob_api.spec import Agent, AgentMode, GracefulShutdown, Keep, Rendezvous
from elasticjob_operator.model.revision import template_hash, wanted_revision
from testing.builders import SETTINGS, job, template


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"template": template(image="img:2")}, id="image"),
        pytest.param({"template": {**template(), "metadata": {"labels": {"a": "b"}}}}, id="label"),
        pytest.param({"nproc_per_node": 4}, id="workers"),
        pytest.param({"trainer_container": "trainer"}, id="container"),
        pytest.param({"agent": Agent(mode=AgentMode.PROVIDED)}, id="mode"),
        pytest.param({"agent": Agent(image="agent:2")}, id="agent-image"),
        pytest.param({"agent": Agent(interface="net1")}, id="interface"),
        pytest.param({"agent": Agent(warm_start=WarmStart.AUTO)}, id="warm-start"),
        pytest.param({"agent": Agent(warm_start=WarmStart.OFF)}, id="cold-start"),
        pytest.param({"agent": Agent(shm_size_limit="1Gi")}, id="shm"),
        pytest.param({"keep": Keep(size_limit="1Gi")}, id="keep"),
    ],
)
def test_the_hash_covers_the_fields_that_make_a_pod(spec: dict[str, Any]) -> None:
    assert template_hash(job(**spec)) != template_hash(job())


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"replicas": 7, "max_restarts": 9}, id="policies"),
        pytest.param({"graceful_shutdown": GracefulShutdown(seconds=90)}, id="grace"),
        pytest.param({"agent": Agent(report_period_s=7)}, id="reports"),
        pytest.param({"rendezvous": Rendezvous(keep_alive_s=9)}, id="rendezvous"),
    ],
)
def test_the_hash_does_not_cover_fields_that_may_change_while_pods_run(spec: dict[str, Any]) -> None:
    assert template_hash(job(**spec)) == template_hash(job())


def test_each_field_of_kept_steps_has_another_hash() -> None:
    plain = {"size_limit": "1Gi"}
    changes: list[dict[str, Any]] = [{"size_limit": "2Gi"}, {"copies": 2}, {"bandwidth": 0}, {"restore_timeout_s": 9.0}]
    changes += [{"persist_to": "/a"}, {"persist_every_s": 60.0}, {"persist_keep": 3}, {"resume": False}]
    hashes = {template_hash(job(keep=Keep(**{**plain, **change}))) for change in [{}, *changes]}
    assert len(hashes) == 1 + len(changes)


def test_the_hash_does_not_depend_on_the_order_of_fields() -> None:
    reordered = {"spec": {"containers": [dict(reversed(template()["spec"]["containers"][0].items()))]}}
    assert template_hash(job(template=reordered)) == template_hash(job())


def test_the_hash_is_the_same_in_every_version_so_that_an_upgrade_replaces_no_pods() -> None:
    assert template_hash(job()) == "42e990c626"
    assert template_hash(job(keep=Keep(size_limit="1Gi", copies=2))) == "06504f0a6a"


def test_the_bandwidth_that_was_the_default_has_the_hash_that_it_had_then() -> None:
    unset = template_hash(job(keep=Keep(size_limit="1Gi")))
    assert template_hash(job(keep=Keep(size_limit="1Gi", bandwidth="256Mi"))) == unset == "5b529c4396"


def test_the_installations_default_for_warm_starts_changes_no_revision_so_that_no_pods_are_replaced() -> None:
    assert wanted_revision(job(), replace(SETTINGS, warm_start=WarmStart.AUTO)) == wanted_revision(job(), SETTINGS)


@pytest.mark.parametrize(
    ("agent", "image"),
    [
        (Agent(), "agent:new"),
        (Agent(image="mine:1"), "mine:1"),
        (Agent(mode=AgentMode.PROVIDED, image="mine:1"), ""),
    ],
)
def test_the_agent_image_is_the_operators_unless_the_job_names_or_provides_one(agent: Agent, image: str) -> None:
    assert wanted_revision(job(agent=agent), replace(SETTINGS, agent_image="agent:new")).agent_image == image
