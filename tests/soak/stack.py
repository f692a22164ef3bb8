"""The surroundings of the soak's jobs: etcd behind a proxy, an API server, the operator, a node; and their leftovers.

The node is one process with the containers of all pods below it. If it is killed, its containers end with it, and its
pods are removed by force, as Kubernetes does for a lost node.
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
from testing.servers.apiserver import ApiServer, await_crd, kube_programs
from testing.servers.etcds import OwnEtcd, http_get
from tests.integration.kube.conftest import CRD
from tests.soak.leaks import strays


class Stage:
    """The surroundings; `open_stage` starts and stops them."""

    def __init__(self, server: ApiServer, etcd: OwnEtcd, way: Proxy, rig: KubeStack) -> None:
        self.server, self.etcd, self.way, self.rig = server, etcd, way, rig
        self._node: Process | None = None

    def start_operator(self) -> None:
        """Start the operator; the one before must have ended."""
        self.rig.start_operator()

    def start_node(self) -> None:
        """Start a node, without the state of the one before."""
        for pod in self.rig.pods():
            if pod["spec"].get("nodeName"):
                self.rig.forget_pod(pod["metadata"]["name"])
        self._node = self.rig.start_node()

    def kill_node(self) -> None:
        """Kill the node with SIGKILL."""
        assert self._node is not None
        self._node.kill()

    @property
    def operator_pid(self) -> int:
        """The pid of the running operator."""
        assert self.rig.operator is not None
        return self.rig.operator.pid

    @property
    def node_pid(self) -> int:
        """The pid of the running node."""
        assert self._node is not None
        return self._node.pid

    def leftovers(self) -> dict[str, Callable[[], object]]:
        """Return a function for each kind of object that may be left after all jobs."""
        return {
            "pods": self.rig.pods,
            "keys": self.rig.etcd_keys,
            "leases": self.leases,
            "processes": self.strays,
            "temporary files": self.temporary_files,
        }

    def leases(self) -> int:
        """Return the number of leases in etcd."""
        return len(http_get(self.etcd.endpoint, "lease/leases").get("leases", []))

    def etcd_bytes(self) -> int:
        """Return the bytes of etcd's data that are in use."""
        return int(http_get(self.etcd.endpoint, "maintenance/status")["dbSizeInUse"])

    def strays(self) -> list[str]:
        """Return the processes of jobs that still live: agents, fork servers and workers of this soak."""
        return strays(self.rig.folder, {os.getpid(), self.node_pid, self.operator_pid})

    def temporary_files(self) -> list[str]:
        """Return the files of agents in the folder for temporary files."""
        return sorted(path.name for path in Path(os.environ["TMPDIR"]).iterdir())


@contextlib.contextmanager
def open_stage(folder: Path) -> Iterator[Stage]:
    """Start all parts, and stop them at the end."""
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
