"""Fixtures of the transfers between keepers: nodes in memory, certificates of one authority."""

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from elasticjob_agent.keep.transfer.connection import TlsContexts
from elasticjob_agent.keep.transfer.session import load_tls
from elasticjob_operator.tls.ca import CertificateAuthority
from tests.integration.keep.transfer.nodes import Node

_MEMORY = Path("/dev/shm")


@pytest.fixture
def memory() -> Iterator[Path]:
    """A directory in memory, if one can be had there."""
    folder = Path(tempfile.mkdtemp(dir=_MEMORY if os.access(_MEMORY, os.W_OK) else None, prefix="ejk-"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def node(memory: Path) -> Iterator[Callable[..., Node]]:
    """A function that starts one more node, which is closed at the end."""
    nodes: list[Node] = []

    def start(**settings: object) -> Node:
        root = memory / str(len(nodes))
        root.mkdir()
        nodes.append(Node(root, **settings))  # type: ignore[arg-type]
        return nodes[-1]

    yield start
    for each in nodes:
        each.close()


@pytest.fixture(scope="session")
def tls(tmp_path_factory: pytest.TempPathFactory) -> TlsContexts:
    """Certificates of one authority."""
    return contexts(tmp_path_factory.mktemp("tls"))


def contexts(folder: Path, authority: CertificateAuthority | None = None, *, job: str = "job") -> TlsContexts:
    """Return contexts with the certificate of a job, of this authority or a new one."""
    authority = authority or CertificateAuthority.create(now_s=1.7e9)
    issued = authority.issue_job(job, now_s=1.7e9, life_s=1e9)
    files = {"certificate": issued.certificate, "key": issued.key, "authority": authority.certificate}
    for name, data in files.items():
        (folder / name).write_bytes(data)
    return load_tls(**{name: str(folder / name) for name in files})
