"""The kind cluster that the tests share: created if missing, with our images on its nodes and everything installed.

A cluster that existed before remains, as does one with `--keep-cluster`, and docker likewise. The release is the Helm
chart with the values of e2e/values.yaml. The operator and etcd are on the control plane's node, so that the tests may
break any of the others. Jobs have two workers then. A third one is cordoned: it is for the tests of the chart's
defaults, e2e/default_install.
"""

import json
import shutil
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from e2e.kind_config import SHARED, kind_config
from e2e.programs import CACHE, ROOT, ProgramFailed, run, show, succeeds
from testing.waiting import eventually

OPERATOR_IMAGE, ETCD_IMAGE, AGENT_IMAGE = SYSTEM_IMAGES = (
    "elasticjob/operator:dev",
    "elasticjob/etcd:dev",
    "elasticjob/agent:dev",
)
JOB_IMAGES = (AGENT_IMAGE, "elasticjob/digits:local", "elasticjob/digits-plain:local")
SYSTEM = "elasticjob-system"
OPERATOR = "deployment/elasticjob-operator"
OPERATOR_LEASE = "elasticjob-operator"
OPERATORS = ("--selector=app.kubernetes.io/component=operator", "--prefix")
"""Options of `kubectl logs` for all replicas."""
ETCD = "statefulset/elasticjob-etcd"
_PINNED = ("--values", str(ROOT / "e2e" / "values.yaml"))
_OUR_ETCD = ("--set", "etcd.image.repository=elasticjob/etcd", "--set", "etcd.image.tag=dev")
"""No registry answers where the tests run."""

CHART = ROOT / "charts" / "elasticjob"
_COLD_LIMIT_S = 2400.0
"""The node image and Kubernetes' programs may have to be built."""
_WAIT = ("--wait", "--timeout", "120s")
RELEASE = "elasticjob"
_KUBECTL_LIMIT_S = 180.0
_READ_KEYS = """
import asyncio, json, pathlib
from elasticjob_etcd.client import EtcdClient
from elasticjob_etcd.interface import Endpoint

given = pathlib.Path("/proc/1/cmdline").read_text().split(chr(0))
[targets] = [word.partition("=")[2].split(",") for word in given if word.startswith("--etcd-endpoints=")]
files = pathlib.Path("/run/elasticjob/current")
tls = {"ca_cert": "ca.crt", "cert": "tls.crt", "key": "tls.key"} if files.exists() else {}

async def main():
    etcd = EtcdClient(Endpoint(tuple(targets), **{name: str(files / file) for name, file in tls.items()}))
    print(json.dumps([kv.key for kv in (await etcd.range("/elasticjob/")).kvs]))
    await etcd.close()

asyncio.run(main())
"""
"""A program for the operator's pod."""


@dataclass
class Cluster:
    """One kind cluster; `up`, then `kubectl`, then `down`."""

    name: str
    keep: bool = False
    folders: tuple[Path, ...] = ()
    """Folders of this machine that the workers have, too, at the same paths and read-only."""
    installed_s: float = 0.0
    """Seconds from the command to an operator and an etcd that are ready."""
    was_installed: bool = False
    """Whether there was an older installation."""
    _kubectl: Path = field(default_factory=Path)
    _helm: Path = field(default_factory=Path)
    _was_up: bool = False
    _docker_was_up: bool = False

    def up(self) -> None:
        """Make sure that the cluster exists and has the current state of the project installed."""
        self._docker_was_up = succeeds("docker", "info")
        self._was_up = self._docker_was_up and self.name in _clusters()
        self._create()
        show("images/build", limit_s=_COLD_LIMIT_S)
        tools = run("hack/kube-tools", "kubectl", "helm", limit_s=_COLD_LIMIT_S).split()
        self._kubectl, self._helm = (Path(line.partition("=")[2]) for line in tools)
        self._load()
        self.kubectl("cordon", self.spare())
        self.install()

    def _create(self) -> None:
        """Create the cluster, unless it exists."""
        self.shared.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as config:
            config.write(kind_config(self.folders, self.shared))
            config.flush()
            # Of a repeated option, kind uses the last value.
            show("hack/kind/up", self.name, "--config", config.name, limit_s=_COLD_LIMIT_S)
        for node in run("kind", "get", "nodes", "--name", self.name).split():
            wanted = () if "control-plane" in node else (*self.folders, SHARED)
            missing = [each for each in wanted if not _has(node, each)]
            if missing:
                raise ProgramFailed(f"{node} has no {missing[0]}: hack/kind/down {self.name} removes the older cluster")

    def down(self) -> None:
        """Restore the machine, except for caches."""
        if self.keep or self._was_up:
            return
        show("hack/kind/down", self.name, limit_s=120)
        shutil.rmtree(self.shared, ignore_errors=True)
        if not self._docker_was_up:
            show("hack/kind/docker-down", limit_s=120)

    @property
    def shared(self) -> Path:
        """This machine's path of the folder that all workers share."""
        return CACHE / "shared" / self.name

    def kubectl(self, *arguments: str, stdin: str = "", limit_s: float = _KUBECTL_LIMIT_S) -> str:
        """Return the standard output of kubectl, which must succeed."""
        return run(*self.command(*arguments), stdin=stdin, limit_s=limit_s)

    def command(self, *arguments: str) -> list[str | Path]:
        """Return a kubectl command for this cluster."""
        return [self._kubectl, "--context", f"kind-{self.name}", *arguments]

    def etcd_keys(self, part: str) -> list[str]:
        """Return all keys of jobs in etcd that contain `part`, read with the operator's own certificate."""
        ask = ("exec", "-n", SYSTEM, OPERATOR, "--", "python", "-c", _READ_KEYS)
        # The service may name a member whose node has just died.
        answer = eventually(lambda: self._try_kubectl(*ask), within_s=90, what="etcd answers", pause_s=1)
        keys: list[str] = json.loads(answer)
        return [key for key in keys if part in key]

    def _try_kubectl(self, *arguments: str) -> str:
        """As `kubectl`, but return an empty text on failure."""
        try:
            return self.kubectl(*arguments, limit_s=20)
        except ProgramFailed as error:
            print(error)
            return ""

    def helm(self, *arguments: str) -> str:
        """Return the standard output of helm, which must succeed, for the namespace of the release."""
        place: list[str | Path] = [self._helm, "--kube-context", f"kind-{self.name}", "--namespace", SYSTEM]
        return run(*place, *arguments, limit_s=_KUBECTL_LIMIT_S)

    def workers(self) -> list[str]:
        """Return the two nodes for pods of jobs; docker's containers have the same names."""
        return self.all_workers()[:2]

    def all_workers(self) -> list[str]:
        """Return all workers; the third takes pods only in the tests of the chart's defaults."""
        return [node for node in self._nodes() if "control-plane" not in node]

    def spare(self) -> str:
        """Return the third worker."""
        found = self.all_workers()
        assert len(found) == 3, f"the cluster {self.name} is an older one: hack/kind/down {self.name} removes it"
        return found[2]

    def control_plane(self) -> str:
        """Return the node of the API server, the operator and etcd."""
        [found] = set(self._nodes()) - set(self.all_workers())
        return found

    def upgrade(self, *values: str, chart: Path = CHART, pinned: bool = True) -> None:
        """Run `helm upgrade --install` with more values, in the form of --set; wait until all is ready.

        If not `pinned`: with the chart's defaults, except for the name of etcd's image.
        """
        sets = [word for value in values for word in ("--set", value)]
        base = _PINNED if pinned else _OUR_ETCD
        self.helm("upgrade", RELEASE, str(chart), "--install", *base, "--take-ownership", *sets, *_WAIT)

    def install(self, *values: str, pinned: bool = True) -> None:
        """Install the release, from nothing or over an older one, with more values, in the form of --set."""
        self.kubectl("apply", "--server-side", "-f", str(ROOT / "deploy" / "00-namespace.yaml"))
        self.was_installed = RELEASE in self.helm("list", "--short").split()
        image = run("docker", "image", "inspect", "--format", "{{.Id}}", OPERATOR_IMAGE).strip()
        start = time.monotonic()
        # The tag is always the same, so Kubernetes recognizes another image by its id only.
        self.upgrade(f"operator.podAnnotations.image={image}", *values, pinned=pinned)
        self.installed_s = time.monotonic() - start

    def uninstall(self) -> None:
        """Uninstall the release; jobs, the CRD and the namespace remain."""
        self.helm("uninstall", RELEASE, "--wait")

    def load(self, image: str, *places: str) -> None:
        """Load an image on these nodes; kind skips nodes that have it."""
        run("kind", "load", "docker-image", image, "--name", self.name, "--nodes", ",".join(places), limit_s=600)

    def load_etcd_everywhere(self) -> None:
        """Load etcd's image on all nodes, for three members."""
        for image in (ETCD_IMAGE, AGENT_IMAGE):
            self.load(image, *self._nodes())

    def _nodes(self) -> list[str]:
        return sorted(self.kubectl("get", "nodes", "-o", "name").replace("node/", "").split())

    def _load(self) -> None:
        """Load the images on the nodes that need them; kind skips those that have them."""
        for images, nodes in ((SYSTEM_IMAGES, [self.control_plane()]), (JOB_IMAGES, self.workers())):
            on = ("--name", self.name, "--nodes", ",".join(nodes))
            run("kind", "load", "docker-image", *images, *on, limit_s=600)


def _has(node: str, folder: Path) -> bool:
    return succeeds("docker", "exec", node, "test", "-d", folder)


def _clusters() -> list[str]:
    return run("kind", "get", "clusters").split() if succeeds("kind", "version") else []
