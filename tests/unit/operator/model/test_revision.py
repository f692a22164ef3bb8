"""What makes two pods of one job alike, and what of the spec may change without making them differ."""

from dataclasses import replace
from typing import Any

import pytest

from elasticjob_api.spec import Agent, AgentMode, GracefulShutdown, Rendezvous
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
        pytest.param({"agent": Agent(shm_size_limit="1Gi")}, id="shm"),
    ],
)
def test_what_the_spec_gives_a_pod_is_part_of_the_hash(spec: dict[str, Any]) -> None:
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
def test_what_may_change_while_pods_run_is_not(spec: dict[str, Any]) -> None:
    assert template_hash(job(**spec)) == template_hash(job())


def test_the_order_in_which_a_template_was_written_is_not() -> None:
    turned = {"spec": {"containers": [dict(reversed(template()["spec"]["containers"][0].items()))]}}
    assert template_hash(job(template=turned)) == template_hash(job())


def test_it_is_the_same_in_every_version_of_the_operator_or_an_upgrade_would_replace_all_pods() -> None:
    assert template_hash(job()) == "42e990c626"


@pytest.mark.parametrize(
    ("agent", "image"),
    [
        (Agent(), "agent:new"),
        (Agent(image="mine:1"), "mine:1"),
        (Agent(mode=AgentMode.PROVIDED, image="mine:1"), ""),
    ],
)
def test_the_agent_is_the_operators_unless_the_job_names_one_or_has_one(agent: Agent, image: str) -> None:
    assert wanted_revision(job(agent=agent), replace(SETTINGS, agent_image="agent:new")).agent_image == image
