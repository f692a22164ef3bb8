"""Two installations with one API server, each with its etcd; and an installation whose cluster id would change."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml

from elasticjob_etcd.client import EtcdClient
from elasticjob_etcd.embedded import EmbeddedEtcd
from elasticjob_etcd.interface import Endpoint
from testing.kube.jobs import waiting_job
from testing.kube.stack import DEPLOY, SYSTEM, KubeStack
from testing.processes.process import Process

pytestmark = [pytest.mark.kube, pytest.mark.timeout(240)]

THERE = "team-a.elasticjob"
CONFIG = "elasticjob-installation"


@pytest.fixture
def other_etcd(tmp_path: Path) -> Iterator[Endpoint]:
    server = asyncio.run(EmbeddedEtcd.start(tmp_path / "etcd-other", client_port=0, timeout_s=60))
    yield server.endpoint
    asyncio.run(server.stop())


def start_another(rig: KubeStack, etcd: Endpoint) -> Process:
    """Start a second operator for the same namespace."""
    names = ("--cluster-id", THERE, "--namespace", rig.namespace.name)
    process = Process(
        "elasticjob_operator.main",
        *("--etcd-endpoints", etcd.targets[0], *names),
        log=rig.folder / "another.log",
        environ={"KUBECONFIG": str(rig.folder / "operator.kubeconfig")},
    )
    rig._processes.append(process)
    return process


def keys_in(etcd: Endpoint) -> list[str]:
    async def read() -> list[str]:
        client = EtcdClient(etcd)
        try:
            return [kv.key for kv in (await client.range("/elasticjob/")).kvs]
        finally:
            await client.close()

    return asyncio.run(read())


def workers(rig: KubeStack) -> set[int]:
    return {pid for pid, _ in rig.pids(rig.keys()).values() if psutil.pid_exists(pid)}


def test_the_second_leaves_the_job_alone_until_it_is_handed_over(rig: KubeStack, other_etcd: Endpoint) -> None:
    rig.start_node()
    rig.start_operator()
    short: dict[str, Any] = {"rendezvous": {"joinTimeoutSeconds": 5}, "gracefulShutdown": {"seconds": 1}}
    rig.namespace.apply(waiting_job(rig, replicas=2, minReplicas=1, **short))
    rig.running(nodes=2, round_=1)
    rig.until("both workers", lambda: len(workers(rig)) == 2)
    pods, pids = set(rig.pod_names()), workers(rig)
    assert rig.status()["installation"] == rig.cluster_id
    another = start_another(rig, other_etcd)
    another.wait_for_output(f"OwnedByAnother: installation {THERE} ignores this job: it belongs to installation")
    rig.until("the event", lambda: "OwnedByAnother" in {reason for reason, _ in rig.events()})
    rig.patch_job("j", {"maxRestarts": 9})
    rig.until("a look", lambda: rig.status()["observedGeneration"] == rig.job()["metadata"]["generation"])
    assert (set(rig.pod_names()), workers(rig)) == (pods, pids)
    assert keys_in(other_etcd) == []
    give = ("patch", "ejob", "j", "--subresource=status", "--type=merge", "-p")
    rig.namespace.kubectl(*give, json.dumps({"status": {"installation": THERE}}))
    rig.until("other pods", lambda: len(set(rig.pod_names()) - pods) == 2 and not pods & set(rig.pod_names()))
    rig.until("a round there", lambda: rig.status().get("rendezvousRound", 0) > 1000, within_s=60)
    assert rig.status()["installation"] == THERE
    assert rig.operator is not None
    rig.operator.wait_for_output(f"ignores this job: it belongs to installation {THERE}")


@pytest.fixture
def config(rig: KubeStack) -> None:
    """Create the ConfigMap as deploy/ does."""
    documents = list(yaml.safe_load_all((DEPLOY / "operator.yaml").read_text()))
    [empty] = [each for each in documents if each and each["kind"] == "ConfigMap"]
    server = rig.namespace.server
    assert server.kubectl("apply", "-f", "-", stdin=empty).returncode == 0


def stored(rig: KubeStack, field: str) -> str:
    """Return a field of the ConfigMap, as docs/operations.md does: kubectl get configmap … -o jsonpath."""
    asked = ("get", "configmap", CONFIG, "-o", f"jsonpath={{.data.{field}}}")
    return rig.namespace.server.kubectl(*asked, namespace=SYSTEM).stdout


@pytest.mark.usefixtures("config")
def test_a_changed_cluster_id_restarts_no_job_and_loses_no_key(rig: KubeStack) -> None:
    options = ("--installation-config-map", f"{SYSTEM}/{CONFIG}")
    rig.start_operator(*options)
    rig.namespace.apply(waiting_job(rig, replicas=2))
    rig.until("two pods", lambda: len(rig.pod_names()) == 2)
    pods, identity = rig.pod_names(), (stored(rig, "installation"), stored(rig, "clusterId"))
    assert identity == (rig.status()["installation"], rig.cluster_id)
    rig.kill_operator()
    operator = rig.start_operator("--cluster-id", "another", *options)
    operator.wait_for_output(f"--cluster-id another is not used: ConfigMap {SYSTEM}/{CONFIG} keeps {rig.cluster_id}")
    rig.patch_job("j", {"maxRestarts": 9})
    rig.until("a look", lambda: rig.status()["observedGeneration"] == rig.job()["metadata"]["generation"])
    assert rig.pod_names() == pods
    assert (stored(rig, "installation"), stored(rig, "clusterId")) == identity
    rig.namespace.kubectl("delete", "ejob", "j", "--wait=false")
    rig.until("no keys", lambda: not rig.etcd_range(f"/elasticjob/{rig.cluster_id}/{rig.namespace.name}/").kvs)
