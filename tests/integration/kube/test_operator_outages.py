"""Without the API server, the CRD or access to etcd the operator logs it and waits, or exits with 1.

These tests have an API server of their own, which they stop, kill and start again.
"""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
import yaml

from elasticjob_etcd.embedded import EmbeddedEtcd
from elasticjob_etcd.messages import rpc
from elasticjob_operator.cluster.connection import Connection
from elasticjob_operator.cluster.kube import KubeCluster
from elasticjob_operator.errors import ClusterError
from elasticjob_operator.model.cluster_interface import Resource
from testing.kube.jobs import waiting_job
from testing.kube.manifests import MINIMAL
from testing.kube.namespace import Namespace
from testing.kube.stack import RBAC, KubeStack, service_account_token
from testing.servers.apiserver import ApiServer, Programs, await_crd
from testing.waiting import aeventually
from tests.integration.kube.conftest import CRD

pytestmark = pytest.mark.kube

NAME = "team"


@pytest.fixture(scope="module")
def own_server(programs: Programs, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    """Run an API server with the operator's role and a namespace. Each test installs or removes the CRD."""
    with ApiServer(programs, tmp_path_factory.mktemp("own-kube")) as server:
        for arguments in (["apply", *(f"--filename={path}" for path in RBAC)], ["create", "namespace", NAME]):
            done = server.kubectl(*arguments)
            assert done.returncode == 0, done.stderr
        yield server


def install_crd(server: ApiServer, crd: dict[str, Any] | None = None) -> None:
    """Install this version's CRD, or another one."""
    done = server.kubectl("apply", "--server-side", "-f", "-" if crd else str(CRD), stdin=crd)
    assert done.returncode == 0, done.stderr
    await_crd(server, "elasticjobs.elasticjob.io")


@pytest.fixture
def own_rig(own_server: ApiServer, etcd_server: EmbeddedEtcd, tmp_path: Path) -> Iterator[KubeStack]:
    rig = KubeStack(
        Namespace(own_server, NAME),
        etcd=etcd_server.endpoint,
        token=service_account_token(own_server),
        folder=tmp_path,
    )
    yield rig
    rig.close()
    own_server.kubectl("delete", "ejob,pods", "--all", "--force", namespace=NAME)


def test_an_operator_without_the_crd_logs_it_and_waits(own_rig: KubeStack, own_server: ApiServer) -> None:
    # Other tests of this module may run first: xdist moves tests from one worker to another.
    own_server.kubectl("delete", "crd", "elasticjobs.elasticjob.io", "--ignore-not-found")
    operator = own_rig.start_operator()
    operator.wait_for_output(
        "the CRD elasticjobs.elasticjob.io is not installed; kubectl apply -f crds/elasticjob.yaml"
    )
    install_crd(own_server)
    own_rig.namespace.apply(waiting_job(own_rig))
    own_rig.until("a pod", own_rig.pods)


def older_crd() -> dict[str, Any]:
    """Return this version's CRD without four later fields of the status."""
    crd: dict[str, Any] = yaml.safe_load(CRD.read_text())
    status = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"]
    del status["message"], status["installation"]
    del status["lastFailure"]["properties"]["stderrTail"]
    del status["nodes"]["items"]["properties"]["cpuPercent"]
    return crd


async def test_only_fields_that_an_older_crd_lacks_are_left_out_of_a_status(
    own_server: ApiServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    own_server.kubectl("delete", "crd", "elasticjobs.elasticjob.io", "--ignore-not-found")
    install_crd(own_server, older_crd())
    monkeypatch.setenv("KUBECONFIG", str(own_server.kubeconfig()))
    namespace = Namespace(own_server, NAME)
    namespace.apply(MINIMAL)
    connection = await Connection.open()
    cluster = KubeCluster(connection)
    failure = {"time": "2026-01-02T03:04:05Z", "round": 1, "podName": "p", "rank": 0, "localRank": 0, "exitCode": 1}
    node = {"name": "digits-0", "podName": "p", "state": "Running"}
    new = {"lastFailure": {**failure, "stderrTail": "Traceback"}, "nodes": [{**node, "cpuPercent": 5}]}
    try:
        await cluster.patch_status(Resource.JOB, NAME, "digits", {"phase": "Running", "message": "m", **new})
    finally:
        await connection.close()
    assert namespace.get("digits")["status"] == {"phase": "Running", "lastFailure": failure, "nodes": [node]}
    assert "this cluster's CRD has no status.lastFailure.stderrTail" in caplog.text


async def test_statuses_of_several_jobs_are_written_with_an_older_crd_and_it_is_logged_once(
    own_server: ApiServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    own_server.kubectl("delete", "crd", "elasticjobs.elasticjob.io", "--ignore-not-found")
    install_crd(own_server, older_crd())
    monkeypatch.setenv("KUBECONFIG", str(own_server.kubeconfig()))
    namespace = Namespace(own_server, NAME)
    names = [f"together-{number}" for number in range(4)]
    for name in names:
        namespace.apply({**MINIMAL, "metadata": {"name": name}})
    versions = {name: namespace.get(name)["metadata"]["resourceVersion"] for name in names}
    connection = await Connection.open()
    cluster = KubeCluster(connection)
    try:
        own = {"installation": "a"}
        await asyncio.gather(*(cluster.claim(Resource.JOB, NAME, name, own, versions[name]) for name in names))
        status = {"phase": "Running", "message": "m"}
        await asyncio.gather(*(cluster.patch_status(Resource.JOB, NAME, name, status) for name in names))
    finally:
        await connection.close()
    assert {namespace.get(name)["status"]["phase"] for name in names} == {"Running"}
    for field in ("installation", "message"):
        assert caplog.text.count(f"this cluster's CRD has no status.{field}:") == 1


async def test_a_missing_crd_is_no_proof_that_a_job_was_deleted(
    own_server: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    own_server.kubectl("delete", "crd", "elasticjobs.elasticjob.io", "--ignore-not-found")
    monkeypatch.setenv("KUBECONFIG", str(own_server.kubeconfig()))
    connection = await Connection.open()
    cluster = KubeCluster(connection)

    async def is_refused() -> bool:
        try:
            await cluster.get(Resource.JOB, NAME, "j")
        except ClusterError as error:
            return "404" in str(error)
        return False  # the API server may serve the type for a moment after its deletion

    try:
        _: bool = await aeventually(is_refused, what="the error 404")
    finally:
        await connection.close()


def test_an_operator_that_waits_for_the_crd_can_be_stopped(own_rig: KubeStack, own_server: ApiServer) -> None:
    own_server.kubectl("delete", "crd", "elasticjobs.elasticjob.io", "--ignore-not-found")
    operator = own_rig.start_operator()
    operator.wait_for_output("is not installed")
    assert operator.stop(within_s=5) == 0


def test_an_operator_starts_before_its_api_server(own_rig: KubeStack, own_server: ApiServer) -> None:
    install_crd(own_server)
    own_server.stop()
    try:
        operator = own_rig.start_operator()
        operator.wait_for_output("the API server did not answer")
    finally:
        own_server.start()
    own_rig.namespace.apply(waiting_job(own_rig))
    own_rig.until("a pod", own_rig.pods)


def test_an_operator_can_be_stopped_while_its_api_server_is_away(own_rig: KubeStack, own_server: ApiServer) -> None:
    install_crd(own_server)
    operator = own_rig.start_operator()
    own_rig.namespace.apply(waiting_job(own_rig))
    own_rig.until("a pod", own_rig.pods)
    own_server.kill()
    try:
        operator.wait_for_output("cannot watch, trying again")
        assert operator.stop(within_s=5) == 0
    finally:
        own_server.start()


def test_workers_and_operator_survive_a_kill_of_the_api_server(own_rig: KubeStack, own_server: ApiServer) -> None:
    install_crd(own_server)
    own_rig.start_node()
    operator = own_rig.start_operator()
    own_rig.namespace.apply(waiting_job(own_rig, replicas=1, maxReplicas=2))
    own_rig.running(nodes=1, round_=1)
    before = own_rig.pids(own_rig.keys())
    own_server.kill()
    try:
        operator.wait_for_output("cannot watch, trying again")
    finally:
        own_server.start()
    assert own_rig.pids(own_rig.keys()) == before
    own_rig.namespace.kubectl("scale", "ejob", "j", "--replicas=2")
    assert own_rig.running(nodes=2, round_=2)["restarts"] == 0
    assert operator.stop(within_s=5) == 0


def test_a_job_deleted_during_an_outage_leaves_nothing(own_rig: KubeStack, own_server: ApiServer) -> None:
    install_crd(own_server)
    own_rig.start_node()
    own_rig.start_operator()
    own_rig.namespace.apply(waiting_job(own_rig))
    own_rig.running(nodes=1, round_=1)
    own_rig.kill_operator()
    own_rig.namespace.kubectl("delete", "ejob", "j")
    own_rig.start_operator()
    own_rig.until("no pod", lambda: not own_rig.pods())
    own_rig.until("no key", lambda: not own_rig.etcd_keys())


PEERING = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "kopfpeerings.kopf.dev"},
    "spec": {
        "group": "kopf.dev",
        "scope": "Namespaced",
        "names": {"kind": "KopfPeering", "plural": "kopfpeerings", "singular": "kopfpeering"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
            }
        ],
    },
}
"""The name of a kopf peering object; one kopf operator silences all others through it."""


def test_another_kopf_operator_of_higher_priority_does_not_silence_it(
    own_rig: KubeStack, own_server: ApiServer
) -> None:
    install_crd(own_server)
    own_rig.namespace.kubectl("apply", "-f", "-", stdin=PEERING)
    peer = {"priority": 1_000_000, "lifetime": 3600, "lastseen": "2999-01-01T00:00:00"}
    peering = {"apiVersion": "kopf.dev/v1", "kind": "KopfPeering", "metadata": {"name": "default"}}
    await_crd(own_server, "kopfpeerings.kopf.dev")
    own_rig.namespace.kubectl("apply", "-f", "-", stdin={**peering, "status": {"other": peer}})
    operator = own_rig.start_operator()
    own_rig.namespace.apply(waiting_job(own_rig))
    [pod] = own_rig.until("a pod", own_rig.pod_names)
    own_rig.patch_pod_status(pod, {"phase": "Failed"})
    own_rig.until("a successor", lambda: own_rig.pod_names() not in ([], [pod]))
    assert "kopfpeerings" not in operator.text()


def test_an_operator_without_its_crd_ends_with_a_message(own_rig: KubeStack, own_server: ApiServer) -> None:
    install_crd(own_server)
    operator = own_rig.start_operator()
    operator.wait_for_output("watching team")
    own_server.kubectl("delete", "crd", "elasticjobs.elasticjob.io")
    assert operator.wait() == 1
    operator.wait_for_output("the operator ends: elasticjobs cannot be watched any more")


def test_an_operator_with_an_unusable_etcd_address_ends_with_a_message(own_rig: KubeStack) -> None:
    operator = own_rig.start_operator(etcd="nonsense")
    assert operator.wait() == 1
    operator.wait_for_output("the operator ends: ")
    assert "Traceback" not in operator.text()


def require_a_password(port: int) -> None:
    """Make this etcd refuse clients without a password."""
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        auth = rpc.AuthStub(channel)
        auth.UserAdd(rpc.AuthUserAddRequest(name="root", password="secret"))
        auth.RoleAdd(rpc.AuthRoleAddRequest(name="root"))
        auth.UserGrantRole(rpc.AuthUserGrantRoleRequest(user="root", role="root"))
        auth.AuthEnable(rpc.AuthEnableRequest())


def test_an_operator_that_etcd_refuses_ends_with_a_message(
    own_rig: KubeStack, own_server: ApiServer, tmp_path: Path
) -> None:
    install_crd(own_server)
    server = asyncio.run(EmbeddedEtcd.start(tmp_path / "etcd", client_port=0))
    try:
        require_a_password(server.port)
        operator = own_rig.start_operator(etcd=server.endpoint.targets[0])
        assert operator.wait() == 1
        operator.wait_for_output("the operator ends: ")
        assert "Traceback" not in operator.text()
    finally:
        server.kill()
