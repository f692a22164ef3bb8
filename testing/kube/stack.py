"""A job's whole environment on a real API server: the operator, one node that runs pods as processes, a real etcd.

The operator is a process of its own, with the service account and the role of `deploy/rbac.yaml` and no more. Tests
use kubectl where a user would; their waits read the API directly, which costs less.
"""

import asyncio
import json
import ssl
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from elasticjob_api.keys import Keys, job_prefix
from elasticjob_api.records import NodeReport, SpecRecord, decode
from elasticjob_etcd.client import EtcdClient
from elasticjob_etcd.interface import Endpoint, Put, Range, Txn
from testing.kube.namespace import Namespace
from testing.processes.process import ROOT, Process
from testing.servers.apiserver import ApiServer
from testing.waiting import eventually

DEPLOY = ROOT / "deploy"
RBAC = (DEPLOY / "00-namespace.yaml", DEPLOY / "rbac.yaml")
SYSTEM = "elasticjob-system"
ACCOUNT = "elasticjob-operator"
_ADMIN = "admin-token"
_PAUSE_S = 0.05
"""Between two checks: each is a request to an API server that shares the machine with all processes of the test."""

T = TypeVar("T")


def service_account_token(server: ApiServer, account: str = ACCOUNT) -> str:
    """Return a token of a service account of the operator's namespace."""
    made = server.kubectl("create", "token", account, namespace=SYSTEM)
    assert made.returncode == 0, made.stderr
    return made.stdout.strip()


def write_kubeconfig(path: Path, server: ApiServer, token: str) -> Path:
    """Write a kubeconfig that authenticates by this token."""
    cluster = {"server": server.url, "certificate-authority": str(server.certificate)}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "test",
        "clusters": [{"name": "test", "cluster": cluster}],
        "users": [{"name": "user", "user": {"token": token}}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "user"}}],
    }
    path.write_text(json.dumps(config))
    return path


class KubeStack:
    """One namespace with all its processes; `close` ends them."""

    def __init__(self, namespace: Namespace, *, etcd: Endpoint, token: str, folder: Path) -> None:
        self.namespace = namespace
        self.folder = folder
        self.cluster_id = f"cluster-{namespace.name}"
        self.finish = folder / "finish"
        self.etcd = etcd
        self._kubeconfig = write_kubeconfig(folder / "operator.kubeconfig", namespace.server, token)
        self._trust: ssl.SSLContext | None = None
        self._processes: list[Process] = []
        self.operator: Process | None = None

    # Processes.

    def start_operator(self, *options: str, etcd: str = "", kubeconfig: Path | None = None) -> Process:
        """Start the operator, for this namespace alone."""
        arguments = ["--cluster-id", self.cluster_id, "--namespace", self.namespace.name, *options]
        self.operator = Process(
            "elasticjob_operator.main",
            *("--etcd-endpoints", etcd or self.etcd.targets[0], *arguments),
            log=self.folder / "operator.log",
            environ={"KUBECONFIG": str(kubeconfig or self._kubeconfig)},
        )
        self._processes.append(self.operator)
        return self.operator

    def kill_operator(self) -> None:
        """Send SIGKILL: the operator cannot clean up."""
        assert self.operator is not None
        self.operator.kill()

    def start_node(self, cwd: Path | None = None, *, ip: str = "127.0.0.1") -> Process:
        """Start a node for the pods of the namespace, all at `ip`; their containers run in `cwd`."""
        server = self.namespace.server
        arguments = (server.url, _ADMIN, str(server.certificate), self.namespace.name, str(cwd or self.folder))
        node = Process("testing.kube.node", *arguments, str(self.folder / "node"), ip, log=self.folder / "node.log")
        self._processes.append(node)
        return node

    def bind(self, pod: str, node: str) -> None:
        """Bind a pod to a node, as a scheduler does."""
        target = {"apiVersion": "v1", "kind": "Node", "name": node}
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": pod}, "target": target}
        path = f"/api/v1/namespaces/{self.namespace.name}/pods/{pod}/binding"
        self.namespace.kubectl("create", "--raw", path, "-f", "-", stdin=body)

    def close(self) -> None:
        """End all of them, the operator first: it must not replace pods that end with their node."""
        for process in sorted(self._processes, key=lambda process: process is not self.operator):
            if process.running:
                process.stop()

    # State.

    def job(self, name: str = "j") -> dict[str, Any]:
        """Return the job, or an empty object."""
        return self._get(f"/apis/elasticjob.io/v1alpha1/namespaces/{self.namespace.name}/elasticjobs/{name}")

    def status(self, name: str = "j") -> dict[str, Any]:
        """Return its status, or an empty object."""
        status: dict[str, Any] = self.job(name).get("status") or {}
        return status

    def condition(self, kind: str, name: str = "j") -> dict[str, Any]:
        """Return one condition, or an empty object."""
        return next((c for c in self.status(name).get("conditions", []) if c["type"] == kind), {})

    def pods(self) -> list[dict[str, Any]]:
        """Return all pods, also those that terminate."""
        found: list[dict[str, Any]] = self._get(f"/api/v1/namespaces/{self.namespace.name}/pods")["items"]
        return found

    def pod_names(self) -> list[str]:
        """Return the names of all pods that neither terminate nor have failed."""
        there = [pod for pod in self.pods() if "deletionTimestamp" not in pod["metadata"]]
        return sorted(pod["metadata"]["name"] for pod in there if pod["status"].get("phase") != "Failed")

    def scale(self, name: str = "j") -> dict[str, Any]:
        """Return its `/scale`, as an autoscaler reads it."""
        return self._get(f"{self._jobs_path}/{name}/scale")

    def selected(self, selector: str) -> list[str]:
        """Return the names of the pods that a label selector matches."""
        found = self._get(f"{self._pods_path}?labelSelector={urllib.parse.quote(selector)}")["items"]
        return sorted(pod["metadata"]["name"] for pod in found)

    def events(self) -> list[tuple[str, str]]:
        """Return reason and message of every event, oldest first."""
        items = self._get(f"/api/v1/namespaces/{self.namespace.name}/events")["items"]
        items.sort(key=lambda event: int(event["metadata"]["resourceVersion"]))
        return [(event["reason"], event["message"]) for event in items]

    def keys(self, name: str = "j") -> Keys:
        """Return the job's keys."""
        uid = self.job(name)["metadata"]["uid"]
        return Keys(job_prefix(cluster=self.cluster_id, namespace=self.namespace.name, name=name, uid=uid))

    def etcd_range(self, prefix: str) -> Range:
        """Return the keys and values that etcd has below a prefix."""

        async def read() -> Range:
            client = EtcdClient(self.etcd)
            try:
                return await client.range(prefix)
            finally:
                await client.close()

        return asyncio.run(read())

    def etcd_put(self, values: Mapping[str, bytes]) -> None:
        """Write these keys, as any program with the job's certificate can."""

        async def write() -> None:
            client = EtcdClient(self.etcd)
            try:
                await client.txn(Txn((), tuple(Put(key, value) for key, value in values.items())))
            finally:
                await client.close()

        asyncio.run(write())

    def etcd_keys(self) -> list[str]:
        """Return every key of this cluster's jobs."""
        return [kv.key for kv in self.etcd_range(f"/elasticjob/{self.cluster_id}/").kvs]

    def slots(self, keys: Keys) -> SpecRecord | None:
        """Return the spec record as it is in etcd."""
        found = self.etcd_range(keys.spec).kvs
        return decode(SpecRecord, found[0].value) if found else None

    def pids(self, keys: Keys) -> dict[int, tuple[int, str]]:
        """Return rank → pid of the worker, and its pod, as the agents report them."""
        held = [(keys.parse(kv.key), kv.value) for kv in self.etcd_range(keys.reports).kvs]
        reports = [decode(NodeReport, value) for at, value in held if at is not None and at.kind == "report"]
        return {w.rank: (w.pid, report.pod) for report in reports for w in report.workers if w.pid}

    def patch_pod_status(self, pod: str, status: Mapping[str, Any]) -> None:
        """Patch a pod's status, as a kubelet does."""
        patch = json.dumps({"status": status})
        self.namespace.kubectl("patch", "pod", pod, "--subresource=status", "--type=merge", "-p", patch)

    # Waiting.

    def until(self, what: str, holds: Callable[[], T], within_s: float = 30.0) -> T:
        """Wait; on the deadline the message has the end of the operator's log."""
        try:
            return eventually(holds, within_s=within_s, what=what, pause_s=_PAUSE_S)
        except AssertionError as error:
            log = self.operator.text()[-3000:] if self.operator else ""
            node = self.folder / "node.log"
            ran = node.read_text(errors="replace")[-2000:] if node.exists() else ""
            raise AssertionError(f"{error}\nlog of the operator:\n{log}\nlog of the node:\n{ran}") from None

    def phase(self, phase: str, name: str = "j") -> dict[str, Any]:
        """Wait for this phase; return the status then."""
        self.until(f"phase {phase}", lambda: self.status(name).get("phase") == phase)
        return self.status(name)

    def running(self, nodes: int, round_: int, name: str = "j") -> dict[str, Any]:
        """Wait until this round runs with so many nodes and all their workers; return the status then."""
        wanted = {"readyReplicas": nodes, "rendezvousRound": round_, "phase": "Running"}

        def holds() -> bool:
            status = self.status(name)
            return status.items() >= wanted.items() and status["workerStates"]["running"] == nodes

        self.until(f"round {round_} with {nodes} nodes", holds)
        return self.status(name)

    # Actions of a user, without the cost of kubectl.

    def create(self, plural: str, manifest: Mapping[str, Any]) -> None:
        """Create an object of Kubernetes' own group in the namespace."""
        self._request("POST", f"/api/v1/namespaces/{self.namespace.name}/{plural}", manifest)

    def label_namespace(self, labels: Mapping[str, str]) -> None:
        """Set these labels of the namespace."""
        self._request("PATCH", f"/api/v1/namespaces/{self.namespace.name}", {"metadata": {"labels": labels}})

    def create_job(self, manifest: Mapping[str, Any]) -> None:
        """`kubectl create`."""
        self._request("POST", self._jobs_path, manifest)

    def patch_job(self, name: str, spec: Mapping[str, Any]) -> None:
        """`kubectl patch`."""
        self._request("PATCH", f"{self._jobs_path}/{name}", {"spec": spec})

    def fail_pod(self, name: str) -> None:
        """Fail a pod, as a kubelet does whose container exited with an error."""
        self._request("PATCH", f"{self._pods_path}/{name}/status", {"status": {"phase": "Failed"}})

    def put_status(self, name: str, status: Any) -> bool:
        """Write a pod's status, as a broken kubelet might; return whether the API server accepted it."""
        try:
            self._request("PATCH", f"{self._pods_path}/{name}/status", {"status": status})
        except urllib.error.HTTPError as error:
            if error.code >= 500:
                raise
            return False
        return True

    def delete_pod(self, name: str) -> None:
        """Delete as `kubectl delete pod` does."""
        self._request("DELETE", f"{self._pods_path}/{name}", {})

    def delete_job(self, name: str) -> None:
        """Delete as `kubectl delete ejob --wait=false` does."""
        self._request("DELETE", f"{self._jobs_path}/{name}", {})

    def forget_pod(self, name: str) -> None:
        """Remove a pod, as the garbage collector of pods does when a node is lost for good."""
        self._request("DELETE", f"{self._pods_path}/{name}", {"gracePeriodSeconds": 0})

    @property
    def _jobs_path(self) -> str:
        return f"/apis/elasticjob.io/v1alpha1/namespaces/{self.namespace.name}/elasticjobs"

    @property
    def _pods_path(self) -> str:
        return f"/api/v1/namespaces/{self.namespace.name}/pods"

    def _get(self, path: str) -> dict[str, Any]:
        return self._request("GET", path)

    def _request(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        server = self.namespace.server
        self._trust = self._trust or ssl.create_default_context(cafile=server.certificate)
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        headers = {"Authorization": f"Bearer {_ADMIN}", "Content-Type": kind}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(server.url + path, method=method, data=data, headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=10, context=self._trust) as response:
                found: dict[str, Any] = json.load(response)
        except urllib.error.HTTPError as error:
            if error.code != 404:
                raise
            return {}
        return found
