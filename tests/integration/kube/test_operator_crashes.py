"""The operator is SIGKILLed in the middle of a change and started again: the outcome and its cost do not change."""

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

import pytest

from elasticjob_etcd.client import EtcdClient
from testing.kube.jobs import waiting_job
from testing.kube.stack import KubeStack

pytestmark = pytest.mark.kube

Change = Callable[[], object]


def kill_at_once(rig: KubeStack, change: Change) -> None:
    """Kill when kubectl has returned: the operator may have received the change or not."""
    change()
    rig.kill_operator()


def kill_when_the_map_is_written(rig: KubeStack, change: Change) -> None:
    """Kill when the map in etcd has changed, before any action follows."""
    spec = rig.keys().spec

    async def kill() -> None:
        client = EtcdClient(rig.etcd)
        since = (await client.range(spec)).revision + 1
        async with contextlib.aclosing(client.watch(spec, start_revision=since)) as stream:
            written = asyncio.ensure_future(anext(stream))
            await asyncio.to_thread(change)
            await asyncio.wait_for(written, 20)
            rig.kill_operator()
        await client.close()

    asyncio.run(kill())


def kill_when_the_first_pod_has_changed(rig: KubeStack, change: Change) -> None:
    """Kill when a pod was created or deleted, and others may follow."""
    before = rig.pod_names()
    change()
    rig.until("a changed pod", lambda: rig.pod_names() != before)
    rig.kill_operator()


Moment = Callable[[KubeStack, Change], None]
AT_ONCE, MAP, POD = kill_at_once, kill_when_the_map_is_written, kill_when_the_first_pod_has_changed


@pytest.mark.parametrize(
    ("up", "down", "suspend", "resume"),
    [
        pytest.param(AT_ONCE, AT_ONCE, MAP, MAP, id="resize-at-once, suspend-at-the-map"),
        pytest.param(MAP, POD, AT_ONCE, POD, id="resize-in-the-middle, suspend-at-once"),
        pytest.param(POD, MAP, POD, AT_ONCE, id="resize-and-suspend-at-the-first-pod"),
    ],
)
def test_an_operator_killed_in_the_middle_of_a_change_comes_to_the_same_end(
    rig: KubeStack, up: Moment, down: Moment, suspend: Moment, resume: Moment
) -> None:
    start(rig)
    up(rig, lambda: rig.namespace.kubectl("scale", "ejob", "j", "--replicas=3"))
    rig.start_operator()
    rig.running(nodes=3, round_=2)
    down(rig, lambda: rig.namespace.kubectl("scale", "ejob", "j", "--replicas=2"))
    rig.start_operator()
    rig.running(nodes=2, round_=3)
    suspend(rig, lambda: rig.namespace.patch("j", {"spec": {"suspend": True}}))
    rig.start_operator()
    rig.phase("Suspended")
    rig.until("no pod", lambda: not rig.pods())
    resume(rig, lambda: rig.namespace.patch("j", {"spec": {"suspend": False}}))
    rig.start_operator()
    rig.running(nodes=2, round_=4)
    rig.finish.touch()
    assert_nothing_was_charged(rig.phase("Succeeded"), pods=len(rig.pods()))


def start(rig: KubeStack) -> None:
    rig.start_node()
    rig.start_operator()
    rig.namespace.apply(waiting_job(rig, replicas=2, minReplicas=2, maxReplicas=3))
    rig.running(nodes=2, round_=1)


def assert_nothing_was_charged(status: dict[str, Any], *, pods: int) -> None:
    charged = {name: status[name] for name in ("restarts", "nodeLosses", "podReplacements")}
    assert charged == {"restarts": 0, "nodeLosses": 0, "podReplacements": 0}
    assert (pods, status["rendezvousRound"]) == (2, 4)
