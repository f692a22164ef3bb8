"""The operator's requests to a real API server: the contract of `Cluster`, and its error messages."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psutil
import pytest

from elasticjob_api import constants
from elasticjob_api.job import ElasticJob, parse_stored_job
from elasticjob_operator.cluster.connection import Connection
from elasticjob_operator.cluster.kube import KubeCluster
from elasticjob_operator.cluster.list_watch import ListWatch
from elasticjob_operator.errors import AlreadyExists, ClusterError, ClusterUnavailable, Conflict, Forbidden
from elasticjob_operator.model.cluster_interface import Object, Resource
from elasticjob_operator.model.objects import version_of
from elasticjob_operator.render.disruption_budget import render_disruption_budget
from elasticjob_operator.render.service import render_service
from testing.kube.manifests import MINIMAL, changed, pod_of_job
from testing.kube.namespace import Namespace
from testing.network.proxy import proxy
from testing.servers.apiserver import ApiServer
from testing.waiting import aeventually

pytestmark = pytest.mark.kube

_TURNS_TO_CONNECT = 40
"""Turns of the event loop in which a request begins, connects and sends; each is another place to be cancelled at."""
STRANGER = "ffffffff-0000-0000-0000-000000000000"


@pytest.fixture
async def cluster(namespace: Namespace, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[KubeCluster]:
    monkeypatch.setenv("KUBECONFIG", str(namespace.server.kubeconfig()))
    connection = await Connection.open()
    yield KubeCluster(connection)
    await connection.close()


async def test_an_existing_name_is_refused(cluster: KubeCluster, namespace: Namespace) -> None:
    await cluster.create(Resource.POD, pod_of_job(namespace.name, "a"))
    with pytest.raises(AlreadyExists, match='pods "a" already exists'):
        await cluster.create(Resource.POD, pod_of_job(namespace.name, "a"))


async def test_an_object_is_deleted_only_with_the_given_uid(cluster: KubeCluster, namespace: Namespace) -> None:
    made = await cluster.create(Resource.POD, pod_of_job(namespace.name, "a"))
    with pytest.raises(Conflict, match=STRANGER):
        await cluster.delete(Resource.POD, namespace.name, "a", uid=STRANGER)
    await cluster.delete(Resource.POD, namespace.name, "a", uid=made["metadata"]["uid"])
    assert await cluster.get(Resource.POD, namespace.name, "a") is None
    await cluster.delete(Resource.POD, namespace.name, "a", uid=made["metadata"]["uid"])


async def test_a_collection_is_deleted_by_labels(cluster: KubeCluster, namespace: Namespace) -> None:
    await cluster.create(Resource.POD, pod_of_job(namespace.name, "a", job_uid="u1"))
    await cluster.create(Resource.POD, pod_of_job(namespace.name, "b", job_uid="u2"))
    await cluster.delete_collection(Resource.POD, namespace.name, {constants.LABEL_JOB_UID: "u1"})
    assert await cluster.get(Resource.POD, namespace.name, "a") is None
    assert await cluster.get(Resource.POD, namespace.name, "b") is not None


@pytest.mark.parametrize("render", [render_service, render_disruption_budget])
async def test_an_unchanged_object_is_not_applied_again(
    cluster: KubeCluster,
    namespace: Namespace,
    monkeypatch: pytest.MonkeyPatch,
    render: Callable[[ElasticJob], Object],
) -> None:
    job = parse_stored_job(namespace.apply(changed(MINIMAL, {"spec.minReplicas": 1})))
    kind = Resource.SERVICE if render is render_service else Resource.DISRUPTION_BUDGET
    made = await cluster.apply(kind, render(job))
    sent, apply = list[str](), cluster._apply

    async def counted(*given: Any, **options: Any) -> bytes:
        sent.append(given[1])
        return await apply(*given, **options)

    monkeypatch.setattr(cluster, "_apply", counted)
    again = await cluster.apply(kind, render(job))
    assert (sent, version_of(again)) == ([], version_of(made))
    if kind is Resource.DISRUPTION_BUDGET:
        larger = replace(job, spec=replace(job.spec, min_replicas=2))
        changed_budget = await cluster.apply(kind, render(larger))
        assert (len(sent), changed_budget["spec"]["minAvailable"]) == (1, 2)


async def test_a_status_replaces_the_earlier_one(cluster: KubeCluster, namespace: Namespace) -> None:
    namespace.apply(MINIMAL)
    await cluster.patch_status(Resource.JOB, namespace.name, "digits", {"phase": "Running", "masterPod": "m"})
    await cluster.patch_status(Resource.JOB, namespace.name, "digits", {"phase": "Suspended"})
    job = await cluster.get(Resource.JOB, namespace.name, "digits")
    assert job is not None
    assert (job["status"], job["metadata"]["generation"]) == ({"phase": "Suspended"}, 1)


async def version(cluster: KubeCluster, namespace: Namespace) -> str:
    job = await cluster.get(Resource.JOB, namespace.name, "digits")
    assert job is not None
    return str(job["metadata"]["resourceVersion"])


async def test_one_of_two_claims_succeeds_and_no_status_write_removes_it(
    cluster: KubeCluster, namespace: Namespace
) -> None:
    namespace.apply(MINIMAL)
    seen = await version(cluster, namespace)
    await cluster.claim(Resource.JOB, namespace.name, "digits", {"installation": "here"}, seen)
    with pytest.raises(Conflict):
        await cluster.claim(Resource.JOB, namespace.name, "digits", {"installation": "there"}, seen)
    await cluster.patch_status(Resource.JOB, namespace.name, "digits", {"phase": "Running", "masterPod": "m"})
    await cluster.patch_status(Resource.JOB, namespace.name, "digits", {"phase": "Suspended"})
    job = await cluster.get(Resource.JOB, namespace.name, "digits")
    assert job is not None
    assert job["status"] == {"phase": "Suspended", "installation": "here"}


async def test_a_claim_of_a_deleted_object_is_no_error(cluster: KubeCluster, namespace: Namespace) -> None:
    await cluster.claim(Resource.JOB, namespace.name, "digits", {"installation": "here"}, "1")
    assert await cluster.get(Resource.JOB, namespace.name, "digits") is None


async def test_an_object_is_deleted_only_in_the_given_version(cluster: KubeCluster, namespace: Namespace) -> None:
    made = await cluster.create(Resource.POD, pod_of_job(namespace.name, "a"))
    uid, seen = made["metadata"]["uid"], made["metadata"]["resourceVersion"]
    namespace.kubectl("annotate", "pod", "a", "x=y")
    with pytest.raises(Conflict):
        await cluster.delete(Resource.POD, namespace.name, "a", uid=uid, version=seen)
    now = await cluster.get(Resource.POD, namespace.name, "a")
    assert now is not None
    await cluster.delete(Resource.POD, namespace.name, "a", uid=uid, version=now["metadata"]["resourceVersion"])
    assert await cluster.get(Resource.POD, namespace.name, "a") is None


async def test_a_status_of_a_deleted_object_is_no_error(cluster: KubeCluster, namespace: Namespace) -> None:
    await cluster.patch_status(Resource.JOB, namespace.name, "digits", {"phase": "Running"})
    assert await cluster.get(Resource.JOB, namespace.name, "digits") is None


async def test_a_status_is_not_written_to_a_successor_of_the_same_name(
    cluster: KubeCluster, namespace: Namespace
) -> None:
    metas = []
    for _ in range(2):
        namespace.apply(MINIMAL)
        job = await cluster.get(Resource.JOB, namespace.name, "digits")
        assert job is not None
        metas.append(job["metadata"])
        if len(metas) == 1:
            namespace.kubectl("delete", "ejob", "digits", "--wait=true")
    old, new = metas
    for version in (old["resourceVersion"], None):
        said = {"phase": "Succeeded"}
        await cluster.patch_status(Resource.JOB, namespace.name, "digits", said, uid=old["uid"], version=version)
    job = await cluster.get(Resource.JOB, namespace.name, "digits")
    assert job is not None
    assert "status" not in job
    namespace.kubectl("annotate", "ejob", "digits", "x=y")  # the known version is not the current one
    version = new["resourceVersion"]
    for phase in ("Running", "Suspended"):
        said = {"phase": phase}
        await cluster.patch_status(Resource.JOB, namespace.name, "digits", said, uid=new["uid"], version=version)
        job = await cluster.get(Resource.JOB, namespace.name, "digits")
        assert job is not None
        assert job["status"] == said


async def test_an_invalid_object_is_refused_with_the_api_servers_message(
    cluster: KubeCluster, namespace: Namespace
) -> None:
    body = pod_of_job(namespace.name, "a")
    body["spec"]["containers"][0]["name"] = "Not A Name"
    with pytest.raises(Forbidden, match=r"spec.containers\[0\].name: Invalid value"):
        await cluster.create(Resource.POD, body)


async def test_an_outage_of_the_api_server_raises_unavailable(
    server: ApiServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    config = server.kubeconfig().read_text().replace(server.url, "https://127.0.0.1:1")
    (tmp_path / "config").write_text(config)
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))
    connection = await Connection.open()
    try:
        with pytest.raises(ClusterUnavailable, match="the API server did not answer"):
            await KubeCluster(connection).get(Resource.POD, "default", "a")
    finally:
        await connection.close()


async def test_a_cancelled_watch_leaves_no_connection_even_to_a_silent_api_server(
    namespace: Namespace, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    server = urlsplit(namespace.server.url)
    with proxy(str(server.hostname), int(server.port or 0)) as way:
        config = namespace.server.kubeconfig().read_text().replace(server.netloc, way.endpoint)
        (tmp_path / "config").write_text(config)
        monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))
        connection = await Connection.open()
        async with aclosing(ListWatch(connection).watch(Resource.POD, namespace.name, "")) as stream:
            assert (await anext(stream))[0] == "CONNECTED"
            way.stall()
        await connection.close()
        await aeventually(lambda: not connected_to(way.endpoint), within_s=5, what="the connection's end")


async def test_a_request_that_is_cancelled_while_it_connects_leaves_no_connection(
    namespace: Namespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(namespace.server.kubeconfig()))
    for turns in range(_TURNS_TO_CONNECT):
        connection = await Connection.open()
        request = asyncio.create_task(KubeCluster(connection).get(Resource.POD, namespace.name, "a"))
        for _ in range(turns):
            await asyncio.sleep(0)  # one turn of the event loop
        request.cancel()
        await asyncio.gather(request, return_exceptions=True)
        await connection.close()
        assert connected_to(urlsplit(namespace.server.url).netloc) == [], f"cancelled after {turns} turns"


def connected_to(endpoint: str) -> list[str]:
    """Return this process's open connections to the endpoint."""
    found = psutil.Process().net_connections("tcp")
    return [c.status for c in found if c.raddr and f"{c.raddr.ip}:{c.raddr.port}" == endpoint]


async def test_a_missing_kubeconfig_is_an_error_that_names_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "nothing"))
    with pytest.raises(ClusterError, match="not in a pod, and no usable kubeconfig"):
        await Connection.open()
