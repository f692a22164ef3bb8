"""The kind cluster that the tests share: made if it is not there, with our images on its nodes and all installed.

A cluster that was there before stays there; so does one that `--keep-cluster` asks for, and docker likewise. What is
installed is the Helm chart, with the values of e2e/values.yaml: the operator and etcd are on the control plane's node,
so that the tests may break any of the others.
"""

import json
import time
from base64 import b64decode, b64encode
from dataclasses import dataclass, field
from pathlib import Path

from e2e.programs import ROOT, ProgramFailed, run, show, succeeds
from tests.faults.waiting import eventually

OPERATOR_IMAGE, ETCD_IMAGE = SYSTEM_IMAGES = ("elasticjob/operator:dev", "elasticjob/etcd:dev")
JOB_IMAGES = ("elasticjob/agent:dev", "elasticjob/digits:local", "elasticjob/digits-plain:local")
SYSTEM = "elasticjob-system"
OPERATOR = "deployment/elasticjob-operator"
ETCD = "statefulset/elasticjob-etcd"
ETCD_SERVICE = "elasticjob-etcd:2379"

CHART = ROOT / "charts" / "elasticjob"
_COLD_LIMIT_S = 2400.0
"""The node image and Kubernetes' programs may have to be built."""
_WAIT = ("--wait", "--timeout", "120s")
RELEASE = "elasticjob"
_KUBECTL_LIMIT_S = 180.0


@dataclass
class Cluster:
    """One kind cluster; `up`, then `kubectl`, then `down`."""

    name: str
    keep: bool = False
    installed_s: float = 0.0
    """Seconds from the command to an operator and an etcd that are ready."""
    was_installed: bool = False
    """There was an older installation."""
    _kubectl: Path = field(default_factory=Path)
    _helm: Path = field(default_factory=Path)
    _was_up: bool = False
    _docker_was_up: bool = False

    def up(self) -> None:
        """Make sure that it is there and has the present state of the project installed."""
        self._docker_was_up = succeeds("docker", "info")
        self._was_up = self._docker_was_up and self.name in _clusters()
        show("hack/kind/up", self.name, limit_s=_COLD_LIMIT_S)
        show("images/build", limit_s=_COLD_LIMIT_S)
        tools = run("hack/kube-tools", "kubectl", "helm", limit_s=_COLD_LIMIT_S).split()
        self._kubectl, self._helm = (Path(line.partition("=")[2]) for line in tools)
        self._load()
        self.install()

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
        # The service may name a member whose node has just died.
        ask = ("create", "--raw", path, "-f", "-")
        what = "etcd answers"
        answer = eventually(lambda: self._said(*ask, stdin=json.dumps(everything)), within_s=90, what=what, pause_s=1)
        keys = [b64decode(kv["key"]).decode() for kv in json.loads(answer).get("kvs", [])]
        return [key for key in keys if part in key]

    def _said(self, *arguments: str, stdin: str) -> str:
        """The same as `kubectl`; nothing if it fails."""
        try:
            return self.kubectl(*arguments, stdin=stdin, limit_s=20)
        except ProgramFailed as error:
            print(error)
            return ""

    def helm(self, *arguments: str) -> str:
        """Standard output of helm, which must succeed, for the namespace of the release."""
        place: list[str | Path] = [self._helm, "--kube-context", f"kind-{self.name}", "--namespace", SYSTEM]
        return run(*place, *arguments, limit_s=_KUBECTL_LIMIT_S)

    def workers(self) -> list[str]:
        """The nodes that take pods of jobs; docker's containers have the same names."""
        return [node for node in self._nodes() if "control-plane" not in node]

    def control_plane(self) -> str:
        """The node of the API server, the operator and etcd."""
        [found] = set(self._nodes()) - set(self.workers())
        return found

    def upgrade(self, *values: str, chart: Path = CHART) -> None:
        """`helm upgrade --install` with more values, as --set takes them; waits until all is ready."""
        sets = [word for value in values for word in ("--set", value)]
        files = ("--values", str(ROOT / "e2e" / "values.yaml"), "--take-ownership")
        self.helm("upgrade", RELEASE, str(chart), "--install", *files, *sets, *_WAIT)

    def install(self, *values: str) -> None:
        """The release, from nothing or over an older one, with more values, as --set takes them."""
        self.kubectl("apply", "--server-side", "-f", str(ROOT / "deploy" / "00-namespace.yaml"))
        self.was_installed = RELEASE in self.helm("list", "--short").split()
        image = run("docker", "image", "inspect", "--format", "{{.Id}}", OPERATOR_IMAGE).strip()
        start = time.monotonic()
        # The tag is always the same, so the image's id is what tells Kubernetes of another one.
        self.upgrade(f"operator.podAnnotations.image={image}", *values)
        self.installed_s = time.monotonic() - start

    def load(self, image: str, *places: str) -> None:
        """Put an image on these nodes; kind leaves out those that have it."""
        run("kind", "load", "docker-image", image, "--name", self.name, "--nodes", ",".join(places), limit_s=600)

    def load_etcd_everywhere(self) -> None:
        """For three members."""
        self.load(ETCD_IMAGE, *self._nodes())

    def _nodes(self) -> list[str]:
        return sorted(self.kubectl("get", "nodes", "-o", "name").replace("node/", "").split())

    def _load(self) -> None:
        """Put the images on the nodes that need them; kind leaves out those that have them."""
        for images, nodes in ((SYSTEM_IMAGES, [self.control_plane()]), (JOB_IMAGES, self.workers())):
            on = ("--name", self.name, "--nodes", ",".join(nodes))
            run("kind", "load", "docker-image", *images, *on, limit_s=600)


def _clusters() -> list[str]:
    return run("kind", "get", "clusters").split() if succeeds("kind", "version") else []


def _base64(text: str) -> str:
    return b64encode(text.encode()).decode()
