"""An operator behind the proxy of `api_faults.py`, and the controls of that proxy."""

import contextlib
import json
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from testing.kube.stack import KubeStack
from testing.processes.process import Process


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


@contextlib.contextmanager
def faulty_api_server(rig: KubeStack, *options: str) -> Iterator[Proxy]:
    """An operator that reaches its API server through this proxy only, without faults; its watches have begun."""
    server = rig.namespace.server
    log = rig.folder / "storm.log"
    process = Process("testing.kube.api_faults", server.url, str(server.certificate), log=log)
    made = Proxy(process.wait_for_output("listening on ").split()[-1])
    config: dict[str, Any] = json.loads((rig.folder / "operator.kubeconfig").read_text())
    config["clusters"][0]["cluster"] = {"server": made.url}
    path = rig.folder / "stormy.kubeconfig"
    path.write_text(json.dumps(config))
    rig.start_operator(*options, kubeconfig=path)
    rig.until("two watches", lambda: made.state("watching") >= 2)
    yield made
    rig.close()
    process.kill()
