"""All that the soak's jobs live in: etcd behind a proxy, an API server, the operator, a node; and what is left of it.

The node is one process with the containers of all pods below it. When it is killed its containers die with it, and
the pods it had are removed by force, as Kubernetes does with those of a node that is gone.
"""

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path

from elasticjob_etcd.interface import Endpoint
from testing.kube.namespace import Namespace
from testing.kube.stack import RBAC, KubeStack, service_account_token
from testing.network.proxy import Proxy, proxy
from testing.processes.process import Process
from testing.servers.apiserver import ApiServer, kube_programs
from testing.servers.etcds import OwnEtcd, http_get
from tests.integration.kube.conftest import CRD, await_crd
from tests.soak.leaks import strays


class Stage:
    """See the module; `open_stage` makes it and takes it down."""

    def __init__(self, server: ApiServer, etcd: OwnEtcd, way: Proxy, rig: KubeStack) -> None:
        self.server, self.etcd, self.way, self.rig = server, etcd, way, rig
        self._node: Process | None = None

    def start_operator(self) -> None:
        """Start it; the one before must have ended."""
        self.rig.start_operator()

    def start_node(self) -> None:
        """Start a node; what its predecessor had is forgotten."""
        for pod in self.rig.pods():
            if pod["spec"].get("nodeName"):
                self.rig.forget_pod(pod["metadata"]["name"])
        self._node = self.rig.start_node()

    def kill_node(self) -> None:
        """SIGKILL."""
        assert self._node is not None
        self._node.kill()

    @property
    def operator_pid(self) -> int:
        """Of the operator that runs."""
        assert self.rig.operator is not None
        return self.rig.operator.pid

    @property
    def node_pid(self) -> int:
        """Of the node that runs."""
        assert self._node is not None
        return self._node.pid

    def leftovers(self) -> dict[str, Callable[[], object]]:
        """What may be left when all jobs are gone, each as a look at it."""
        return {
            "pods": self.rig.pods,
            "keys": self.rig.etcd_keys,
            "leases": self.leases,
            "processes": self.strays,
            "temporary files": self.temporary_files,
        }

    def leases(self) -> int:
        """How many etcd has."""
        return len(http_get(self.etcd.endpoint, "lease/leases").get("leases", []))

    def etcd_bytes(self) -> int:
        """Of its data that are in use."""
        return int(http_get(self.etcd.endpoint, "maintenance/status")["dbSizeInUse"])

    def strays(self) -> list[str]:
        """Processes of jobs that still live, wherever they have gone: agents, starters and workers of this soak."""
        return strays(self.rig.folder, {os.getpid(), self.node_pid, self.operator_pid})

    def temporary_files(self) -> list[str]:
        """What agents left in the folder for temporary files."""
        return sorted(path.name for path in Path(os.environ["TMPDIR"]).iterdir())


@contextlib.contextmanager
def open_stage(folder: Path) -> Iterator[Stage]:
    """Everything runs, and nothing does in the end."""
    (folder / "kube").mkdir()
    own = OwnEtcd(folder)
    with contextlib.ExitStack() as stack:
        stack.callback(own.stop)
        server = stack.enter_context(ApiServer(kube_programs(), folder / "kube"))
        way = stack.enter_context(proxy("127.0.0.1", own.port))
        applied = server.kubectl("apply", "--server-side", "-f", str(CRD))
        assert applied.returncode == 0, applied.stderr
        await_crd(server, "elasticjobs.elasticjob.io")
        applied = server.kubectl("apply", *(f"--filename={path}" for path in RBAC))
        assert applied.returncode == 0, applied.stderr
        namespace = Namespace(server, "soak")
        namespace.create()
        token = service_account_token(server)
        rig = KubeStack(namespace, etcd=Endpoint(targets=(way.endpoint,)), token=token, folder=folder)
        stack.callback(rig.close)
        stage = Stage(server, own, way, rig)
        stage.start_operator()
        stage.start_node()
        yield stage
