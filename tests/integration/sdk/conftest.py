"""A namespace of a real API server, a cluster of the SDK that means it, and what an operator or a kubelet would say.

No operator runs here: each test says itself what it would have written. `kubelet` is a node's real HTTPS end, so that
logs come the way they do in a cluster.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from elasticjob import Cluster, ElasticJob
from testing.kube.manifests import ELASTIC
from testing.kube.namespace import Namespace
from testing.servers.apiserver import ApiServer
from tests.integration.sdk.kubelet import Kubelet


@dataclass(frozen=True, slots=True)
class Stage:
    """Where a test plays."""

    namespace: Namespace
    cluster: Cluster

    def created(self) -> ElasticJob:
        """A job that is stored."""
        return ElasticJob.from_dict(ELASTIC).create(cluster=self.cluster)

    def says(self, job: ElasticJob, **status: Any) -> None:
        """As the operator."""
        self.namespace.patch(job.name, {"status": status}, "--subresource=status")

    def runs(self, job: ElasticJob, *pods: str, phase: str = "Running", workers: int = 1) -> None:
        """As the operator: these pods are the nodes of the round, in order of their ranks."""
        nodes = [
            {"name": pod, "podName": pod, "rank": rank, "ranks": "R" * workers, "state": "Running"}
            for rank, pod in enumerate(pods)
        ]
        self.says(job, phase=phase, nodes=nodes)


@pytest.fixture(autouse=True)
def _own_secret(own_config: Path) -> None:
    """Calls over nodes that meet on this machine keep a secret of their user, who is not to get one by a test."""


@pytest.fixture
def stage(namespace: Namespace) -> Iterator[Stage]:
    config = namespace.server.kubeconfig(namespace=namespace.name)
    cluster = Cluster.connect(kubeconfig=config)
    yield Stage(namespace, cluster)
    cluster.close()


@pytest.fixture
def job(stage: Stage) -> ElasticJob:
    """A job that is stored."""
    return stage.created()


@pytest.fixture
def kubelet(stage: Stage, crd: ApiServer, tmp_path: Path) -> Iterator[Kubelet]:
    with Kubelet(stage.namespace, crd.certificate, tmp_path) as running:
        yield running
