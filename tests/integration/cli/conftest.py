"""Fixtures for tests of the command line: a census around each test, a kubelet over a cluster in memory, plain pods."""

import asyncio
import contextlib
import os
import sys
import time
import uuid
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from elasticjob_agent.supervisor import Supervisor
from elasticjob_cli.local.containers import Host
from elasticjob_cli.local.kubelet import Kubelet
from elasticjob_operator.cluster.in_memory import InMemoryCluster
from elasticjob_operator.model.cluster_interface import Object, Resource
from elasticjob_operator.model.timestamps import to_rfc3339
from testing.kube.namespace import Namespace
from testing.processes.census import MARKER, Census
from testing.waiting import aeventually
from tests.integration.cli.on_a_cluster import Command
from tests.integration.cli.runs import Cli
from tests.integration.sdk.conftest import job, kubelet, stage  # noqa: F401  # fixtures


@pytest.fixture
def census() -> Iterator[Census]:
    """Check that no process is left after the test and its fixtures."""
    with Census() as census:
        yield census
        assert census.found() == []


@dataclass
class Pods:
    """A running kubelet, and its pods."""

    cluster: InMemoryCluster
    kubelet: Kubelet
    root: Path
    token: str
    lines: list[tuple[str, str]]

    async def create(self, script: str, name: str = "plain", **spec: Any) -> str:
        """Create a pod whose only container runs this script in a shell; return its name."""
        env = [{"name": MARKER, "value": self.token}]
        container = {"name": "trainer", "command": ["sh", "-c", script], "env": env, **spec.pop("container", {})}
        body = {"metadata": {"name": name}, "spec": {"containers": [container], **spec}}
        await self.cluster.create(Resource.POD, body)
        return name

    def get(self, name: str = "plain") -> Object | None:
        return next((pod for pod in self.cluster.objects(Resource.POD) if pod["metadata"]["name"] == name), None)

    def status(self, name: str = "plain") -> dict[str, Any]:
        return (self.get(name) or {}).get("status") or {}

    async def phase(self, phase: str, name: str = "plain") -> dict[str, Any]:
        """Wait for this phase; return the status."""
        await aeventually(lambda: self.status(name).get("phase") == phase, what=f"pod {name} {phase}")
        return self.status(name)

    async def wait_line(self, text: str) -> None:
        """Wait until a container has written this line."""
        await aeventually(lambda: text in [line for _, line in self.lines], what=f"line {text!r}")

    async def wait_removed(self, name: str = "plain") -> None:
        """Wait until the pod's object is gone."""
        await aeventually(lambda: self.get(name) is None, what=f"pod {name} gone")

    def end(self, status: dict[str, Any]) -> dict[str, Any]:
        """Return the end of the trainer."""
        terminated: dict[str, Any] = status["containerStatuses"][0]["state"]["terminated"]
        return terminated


@pytest.fixture
async def pods(census: Census, tmp_path: Path) -> AsyncIterator[Pods]:
    """Run a kubelet until the end of the test."""
    cluster = InMemoryCluster(ids=iter(lambda: str(uuid.uuid4()), ""))
    supervisor = await Supervisor.create()
    host = Host(
        environ=dict(os.environ),
        bin=Path(sys.executable).parent,
        cwd=tmp_path,
        pods=tmp_path / "pods",
        volumes=tmp_path / "host",
        logs=tmp_path / "logs",
    )
    lines: list[tuple[str, str]] = []

    def write(pod: str, text: bytes) -> None:
        lines.extend((pod, line) for line in text.decode().splitlines())

    node = Kubelet(
        cluster,
        supervisor=supervisor,
        host=host,
        now=lambda: to_rfc3339(time.time()),
        write=write,
    )
    running = asyncio.create_task(node.run())
    yield Pods(cluster, node, tmp_path, census.token, lines)
    await node.stop(0.0)
    running.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await running
    await supervisor.close()


@pytest.fixture
def cli(census: Census, tmp_path: Path) -> Iterator[Cli]:
    """Return the command line in an empty folder."""
    cli = Cli(tmp_path, census)
    yield cli
    cli.clean_up()


@pytest.fixture
def command(namespace: Namespace, tmp_path: Path) -> Command:
    """Return `elasticjob` for the test's namespace."""
    return Command(namespace.server.kubeconfig(namespace=namespace.name), tmp_path)
