"""Fixtures: the payload, installed once; a job of one node whose agent is the payload's, in any image."""

import secrets
from collections.abc import Callable, Iterator

import pytest

from elasticjob_etcd.embedded import EmbeddedEtcd
from testing import containers
from testing.containers import AGENT, Payload

Run = Callable[..., str]


@pytest.fixture(scope="session")
def payload() -> Iterator[Payload]:
    """The payload in a volume."""
    started = containers.provide()
    made = Payload()
    try:
        made.install()
        yield made
    finally:
        made.remove()
        if started:
            containers.stop_docker()


@pytest.fixture
def run_job(payload: Payload, etcd_server: EmbeddedEtcd) -> Run:
    """Run a worker's command under the payload's agent; what was printed. etcd is found by a name.

    `agent` are further options of the agent.
    """
    port = etcd_server.endpoint.targets[0].rpartition(":")[2]

    def run(
        image: str, *worker: str, options: tuple[str, ...] = (), agent: tuple[str, ...] = (), expect: int = 0
    ) -> str:
        line = (
            "--rdzv-backend",
            "etcd",
            "--rdzv-endpoint",
            f"localhost:{port}",
            "--rdzv-id",
            secrets.token_hex(6),
            "--local-addr",
            "127.0.0.1",
        )
        logs = ("--tmpfs", "/logs:mode=1777")
        command = (AGENT, *line, "--log-dir", "/logs", *agent, "--no-python", *worker)
        return payload.run(image, *command, options=(*logs, *options), expect=expect)

    return run
