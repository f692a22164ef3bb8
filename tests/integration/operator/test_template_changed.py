"""A suspension, a change of the template and a resume that the operator observes as one; and an upgrade of it."""

import copy
from dataclasses import replace
from typing import Any

import pytest

from elasticjob_api import constants
from elasticjob_api.constants import WarmStart
from elasticjob_operator.cluster.in_memory import InMemoryCluster
from elasticjob_operator.model.cluster_interface import Object, Resource
from elasticjob_operator.model.objects import is_terminating, name_of, uid_of
from testing.operator_history import NAMESPACE, SETTINGS, OperatorHistory, manifest, operator_history, running

NEW = "example/trainer:2"


def images(pods: list[Object]) -> set[str]:
    return {pod["spec"]["containers"][0]["image"] for pod in pods}


def agents(pods: list[Object]) -> set[str]:
    return {pod["spec"]["initContainers"][0]["image"] for pod in pods}


class Watched(InMemoryCluster):
    """A cluster that records, for each creation of a pod, the images of pods that are not terminating."""

    def __init__(self) -> None:
        super().__init__()
        self.images: list[set[str]] = []

    async def create(self, resource: Resource, body: Object) -> Object:
        made = await super().create(resource, body)
        if resource is Resource.POD:
            self.images.append(images([pod for pod in self.objects(resource) if not is_terminating(pod)]))
        return made


async def change_template(stage: OperatorHistory) -> None:
    template: Any = copy.deepcopy(manifest()["spec"]["template"])
    template["spec"]["containers"][0]["image"] = NEW
    await stage.scale(suspend=True)
    await stage.scale(template=template)
    await stage.scale(suspend=False)


async def delete(stage: OperatorHistory, pod: Object) -> None:
    await stage.cluster.delete(Resource.POD, NAMESPACE, name_of(pod), uid=uid_of(pod))
    await stage.confirm_deletions()


@pytest.mark.parametrize("away", [True, False], ids=["operator-away", "three-quick-calls"])
async def test_all_pods_are_new_and_an_event_names_the_change(*, away: bool) -> None:
    async with operator_history(replicas=3, minReplicas=1) as stage:
        await running(stage, 3)
        before = stage.pod_names()
        if away:
            await stage.stop_operator()
        await change_template(stage)
        if away:
            stage.start_operator()
        await stage.until("three pods of the new template", lambda: sorted(map(_image, stage.pods())) == [NEW] * 3)
        assert before.isdisjoint(stage.pod_names())
        await stage.confirm_deletions()
        await running(stage, 3)
        await stage.until("the event", lambda: "TemplateChanged" in stage.events())


def _image(pod: Object) -> str:
    return str(pod["spec"]["containers"][0]["image"])


async def test_no_pod_is_created_while_old_ones_terminate() -> None:
    cluster = Watched()
    async with operator_history(cluster, replicas=3, minReplicas=1) as stage:
        await running(stage, 3)
        cluster.images.clear()
        await change_template(stage)
        await stage.until("three new pods", lambda: len(cluster.images) == 3)
        assert cluster.images == [{NEW}] * 3


async def test_a_new_version_of_the_operator_keeps_the_agent_of_a_running_job_until_it_is_suspended() -> None:
    async with operator_history(replicas=2, minReplicas=1) as stage:
        await running(stage, 2)
        [old] = agents(stage.pods())
        await stage.until("status.agentImage", lambda: stage.status().get("agentImage") == old)
        await stage.stop_operator()
        stage.start_operator(replace(SETTINGS, agent_image="agent:next"))
        for pod in stage.pods():  # in the end none of the first pods is left
            await delete(stage, pod)
            await stage.run_pods(2)
            assert agents(stage.pods()) == {old}
        await stage.scale(suspend=True)
        await stage.until("no pods", lambda: not stage.pods())
        await stage.confirm_deletions()
        await stage.scale(suspend=False)
        await stage.until("two pods", lambda: len(stage.pods()) == 2)
        assert agents(stage.pods()) == {"agent:next"}


async def test_another_default_for_warm_starts_replaces_no_pod_and_is_that_of_later_pods() -> None:
    async with operator_history(replicas=2, minReplicas=1) as stage:
        await running(stage, 2)
        before = stage.pod_names()
        await stage.stop_operator()
        stage.start_operator(replace(SETTINGS, warm_start=WarmStart.AUTO))
        await delete(stage, stage.pod(1))
        await stage.run_pods(2)
        assert len(before & stage.pod_names()) == 1
        assert [_warm_start(stage.pod(slot)) for slot in range(2)] == [None, "Auto"]
        assert "TemplateChanged" not in stage.events()


def _warm_start(pod: Object) -> str | None:
    variables = {each["name"]: each.get("value") for each in pod["spec"]["containers"][0]["env"]}
    return variables.get(constants.ENV_WARM_START)


async def test_pods_of_a_version_without_the_label_still_run_after_an_upgrade() -> None:
    async with operator_history(replicas=2, minReplicas=1) as stage:
        await running(stage, 2)
        before = stage.pod_names()
        await stage.stop_operator()
        for pod in stage.pods():
            of_before: Any = {"metadata": {"labels": {constants.LABEL_TEMPLATE_HASH: None}, "annotations": None}}
            await stage.cluster.apply(Resource.POD, {**pod, **_merged(pod, of_before)})
        stage.start_operator(replace(SETTINGS, agent_image="agent:next"))
        await delete(stage, stage.pod(1))
        await stage.run_pods(2)
        assert name_of(stage.pod(0)) in before
        assert agents(stage.pods()) == {"elasticjob-agent"}


def _merged(pod: Object, patch: dict[str, Any]) -> Object:
    labels = {**pod["metadata"]["labels"], **patch["metadata"]["labels"]}
    return {"metadata": {**pod["metadata"], "labels": labels, "annotations": None}}
