"""A namespace of a real API server, a cluster of the SDK for it, and the writes of an operator and a kubelet.

No operator runs here: each test writes what an operator would write. `kubelet` is a real HTTPS server of a node, so
logs take the same way as on a cluster.
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
    """The surroundings of a test."""

    namespace: Namespace
    cluster: Cluster

    def created(self) -> ElasticJob:
        """Return a stored job."""
        return ElasticJob.from_dict(ELASTIC).create(cluster=self.cluster)

    def set_status(self, job: ElasticJob, **status: Any) -> None:
        """Write the status of a job, as an operator does."""
        self.namespace.patch(job.name, {"status": status}, "--subresource=status")

    def runs(self, job: ElasticJob, *pods: str, phase: str = "Running", workers: int = 1) -> None:
        """Write a status in which these pods are the nodes of the round, in order of their ranks."""
        nodes = [
            {"name": pod, "podName": pod, "rank": rank, "ranks": "R" * workers, "state": "Running"}
            for rank, pod in enumerate(pods)
        ]
        self.set_status(job, phase=phase, nodes=nodes)


@pytest.fixture(autouse=True)
def _own_secret(own_config: Path) -> None:
    """Keep the secrets of calls out of the user's own configuration."""


@pytest.fixture
def stage(namespace: Namespace) -> Iterator[Stage]:
    config = namespace.server.kubeconfig(namespace=namespace.name)
    cluster = Cluster.connect(kubeconfig=config)
    yield Stage(namespace, cluster)
    cluster.close()


@pytest.fixture
def job(stage: Stage) -> ElasticJob:
    """Return a stored job."""
    return stage.created()


@pytest.fixture
def kubelet(stage: Stage, crd: ApiServer, tmp_path: Path) -> Iterator[Kubelet]:
    with Kubelet(stage.namespace, crd.certificate, tmp_path) as running:
        yield running
