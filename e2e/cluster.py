"""The kind cluster that the tests share: made if it is not there, with our images on its nodes and all installed.

A cluster that was there before stays there; so does one that `--keep-cluster` asks for, and docker likewise. What is
installed comes from the files a user applies, `crds/` and `deploy/`, and from nothing else.
"""

import json
from base64 import b64decode, b64encode
from dataclasses import dataclass, field
from pathlib import Path

from e2e.programs import ROOT, run, show, succeeds

IMAGES = ("elasticjob/operator:dev", "elasticjob/etcd:dev", "elasticjob/digits:local")
SYSTEM = "elasticjob-system"
OPERATOR = "deployment/elasticjob-operator"
ETCD = "statefulset/elasticjob-etcd"
ETCD_SERVICE = "elasticjob-etcd:2379"

_COLD_LIMIT_S = 2400.0
"""The node image and Kubernetes' programs may have to be built."""
_READY_LIMIT = "--timeout=120s"
_KUBECTL_LIMIT_S = 180.0


@dataclass
class Cluster:
    """One kind cluster; `up`, then `kubectl`, then `down`."""

    name: str
    keep: bool = False
    _kubectl: Path = field(default_factory=Path)
    _was_up: bool = False
    _docker_was_up: bool = False

    def up(self) -> None:
        """Make sure that it is there and has the present state of the project installed."""
        self._docker_was_up = succeeds("docker", "info")
        self._was_up = self._docker_was_up and self.name in _clusters()
        show("hack/kind/up", self.name, limit_s=_COLD_LIMIT_S)
        show("images/build", limit_s=_COLD_LIMIT_S)
        self._kubectl = Path(run("hack/kube-tools", "kubectl", limit_s=_COLD_LIMIT_S).strip().removeprefix("KUBECTL="))
        self._load()
        self._install()

    def down(self) -> None:
        """Leave the machine as it was found, but for what caches have."""
        if self.keep or self._was_up:
            return
        show("hack/kind/down", self.name, limit_s=120)
        if not self._docker_was_up:
            show("hack/kind/docker-down", limit_s=120)

    def kubectl(self, *arguments: str, stdin: str = "", limit_s: float = _KUBECTL_LIMIT_S) -> str:
        """Standard output of kubectl, which must succeed."""
        return run(*self.command(*arguments), stdin=stdin, limit_s=limit_s)

    def command(self, *arguments: str) -> list[str | Path]:
        """A kubectl command for this cluster."""
        return [self._kubectl, "--context", f"kind-{self.name}", *arguments]

    def etcd_keys(self, part: str) -> list[str]:
        """All keys of jobs in etcd that contain `part`."""
        everything = {"key": _base64("/elasticjob/"), "range_end": _base64("/elasticjob0"), "keys_only": True}
        path = f"/api/v1/namespaces/{SYSTEM}/services/{ETCD_SERVICE}/proxy/v3/kv/range"
        answer = self.kubectl("create", "--raw", path, "-f", "-", stdin=json.dumps(everything))
        keys = [b64decode(kv["key"]).decode() for kv in json.loads(answer).get("kvs", [])]
        return [key for key in keys if part in key]

    def _load(self) -> None:
        """Put the images on the nodes that take pods; kind leaves out those that have them."""
        nodes = run("kind", "get", "nodes", "--name", self.name).split()
        workers = ",".join(node for node in nodes if "control-plane" not in node)
        run("kind", "load", "docker-image", *IMAGES, "--name", self.name, "--nodes", workers, limit_s=600)

    def _install(self) -> None:
        was_there = self.kubectl("get", "deployment", "-n", SYSTEM, "-o", "name", "--ignore-not-found")
        self.kubectl("apply", "--server-side", "-f", str(ROOT / "crds"), "-f", str(ROOT / "deploy"))
        if was_there:  # the tag is the same: only new pods run the new image
            self.kubectl("rollout", "restart", "-n", SYSTEM, OPERATOR)
        self.kubectl("wait", "--for=condition=Established", "crd/elasticjobs.elasticjob.io", _READY_LIMIT)
        for workload in (ETCD, OPERATOR):
            self.kubectl("rollout", "status", "-n", SYSTEM, workload, _READY_LIMIT)


def _clusters() -> list[str]:
    return run("kind", "get", "clusters").split() if succeeds("kind", "version") else []


def _base64(text: str) -> str:
    return b64encode(text.encode()).decode()
