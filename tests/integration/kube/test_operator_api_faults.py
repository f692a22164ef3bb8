"""An API server that refuses, loses responses, is slow, or cuts watches: jobs get their pods, and none twice."""

from collections.abc import Iterator
from typing import Any

import pytest

from testing.kube.faulty_operator import Proxy, faulty_api_server
from testing.kube.jobs import waiting_job
from testing.kube.stack import KubeStack
from tests.integration.kube.histories import is_live

pytestmark = pytest.mark.kube

SIZE = 5


@pytest.fixture
def proxy(rig: KubeStack) -> Iterator[Proxy]:
    """Return an operator behind a proxy."""
    with faulty_api_server(rig) as made:
        yield made


def one_pod_a_slot(rig: KubeStack) -> bool:
    slots = sorted(pod["metadata"]["labels"]["elasticjob.io/slot"] for pod in rig.pods() if is_live(pod))
    return slots == [str(n) for n in range(SIZE)]


@pytest.mark.parametrize(
    "bad",
    [
        pytest.param({"refuse": [429, 500, 409], "share": 0.7}, id="429-500-409"),
        pytest.param({"hide": 504, "share": 0.3, "delay_s": 0.2}, id="slow-and-answers-are-lost"),
    ],
)
def test_a_job_gets_one_pod_for_each_slot_despite_faults(rig: KubeStack, proxy: Proxy, bad: dict[str, Any]) -> None:
    proxy.weather(**bad)
    rig.create_job(waiting_job(rig, replicas=SIZE))
    rig.until("pods, or refusals enough", lambda: one_pod_a_slot(rig) or proxy.state("refused") > 10)
    proxy.weather()
    rig.until("one pod a slot", lambda: one_pod_a_slot(rig), within_s=60.0)
    rig.until("its status", lambda: rig.status().get("replicas") == SIZE, within_s=60.0)
    rig.until("no pod beside", lambda: len(rig.pods()) == SIZE)


@pytest.mark.parametrize("gone", [False, True], ids=["cut", "410-gone"])
def test_changes_while_the_watches_were_cut_are_detected(rig: KubeStack, proxy: Proxy, *, gone: bool) -> None:
    rig.create_job(waiting_job(rig))
    [pod] = rig.until("a pod", rig.pod_names)
    proxy.weather(watches_gone=gone)
    assert proxy.cut() >= 2
    rig.fail_pod(pod)
    proxy.weather()
    rig.until("a successor", lambda: rig.pod_names() not in ([], [pod]), within_s=60.0)
    rig.until("counted once", lambda: rig.status().get("podReplacements") == 1)
