"""An API server that refuses, loses answers, is slow, cuts watches: the operator gets there, and no pod is doubled."""

import json
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from tests.integration.kube.histories import is_live
from tests.integration.kube.jobs import waiting_job
from tests.integration.kube.processes import Process
from tests.integration.kube.rig import Rig

pytestmark = pytest.mark.kube

SIZE = 5


@dataclass(frozen=True, slots=True)
class Proxy:
    """The controls of a proxy in front of the API server."""

    url: str

    def weather(self, **bad: Any) -> None:
        self._ask("weather", bad)

    def cut(self) -> int:
        cut: int = self._ask("cut", {})["cut"]
        return cut

    def state(self, name: str) -> int:
        found: int = self._ask("state")[name]
        return found

    def _ask(self, what: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        data = None if body is None else json.dumps(body).encode()
        with urllib.request.urlopen(f"{self.url}/-/{what}", data=data, timeout=10) as answer:
            found: dict[str, Any] = json.load(answer)
        return found


@pytest.fixture
def proxy(rig: Rig) -> Iterator[Proxy]:
    """An operator that reaches its API server through this proxy only, in fair weather; it watches already."""
    server = rig.namespace.server
    log = rig.folder / "storm.log"
    process = Process("tests.integration.kube.storm", server.url, str(server.certificate), log=log)
    made = Proxy(process.says("listening on ").split()[-1])
    config: dict[str, Any] = json.loads((rig.folder / "operator.kubeconfig").read_text())
    config["clusters"][0]["cluster"] = {"server": made.url}
    path = rig.folder / "stormy.kubeconfig"
    path.write_text(json.dumps(config))
    rig.start_operator(kubeconfig=path)
    rig.until("two watches", lambda: made.state("watching") >= 2)
    yield made
    rig.close()
    process.kill()


def one_pod_a_slot(rig: Rig) -> bool:
    slots = sorted(pod["metadata"]["labels"]["elasticjob.io/slot"] for pod in rig.pods() if is_live(pod))
    return slots == [str(n) for n in range(SIZE)]


@pytest.mark.parametrize(
    "bad",
    [
        pytest.param({"refuse": [429, 500, 409], "share": 0.7}, id="429-500-409"),
        pytest.param({"hide": 504, "share": 0.3, "delay_s": 0.2}, id="slow-and-answers-are-lost"),
    ],
)
def test_a_job_gets_one_pod_for_each_slot_in_bad_weather(rig: Rig, proxy: Proxy, bad: dict[str, Any]) -> None:
    proxy.weather(**bad)
    rig.create_job(waiting_job(rig, replicas=SIZE))
    rig.until("pods, or refusals enough", lambda: one_pod_a_slot(rig) or proxy.state("refused") > 10)
    proxy.weather()
    rig.until("one pod a slot", lambda: one_pod_a_slot(rig), within_s=60.0)
    rig.until("its status", lambda: rig.status().get("replicas") == SIZE, within_s=60.0)
    rig.until("no pod beside", lambda: len(rig.pods()) == SIZE)


@pytest.mark.parametrize("gone", [False, True], ids=["cut", "410-gone"])
def test_what_happened_while_the_watches_were_cut_is_seen(rig: Rig, proxy: Proxy, *, gone: bool) -> None:
    rig.create_job(waiting_job(rig))
    [pod] = rig.until("a pod", rig.pod_names)
    proxy.weather(watches_gone=gone)
    assert proxy.cut() >= 2
    rig.fail_pod(pod)
    proxy.weather()
    rig.until("a successor", lambda: rig.pod_names() not in ([], [pod]), within_s=60.0)
    rig.until("counted once", lambda: rig.status().get("podReplacements") == 1)
