"""Fixtures of tests that need torch: a Python with torch, which is never the one that runs the tests.

`make test-torch` creates it (hack/torch-venv) in the cache; ELASTICJOB_TORCH_PYTHON may name another one.
"""

import asyncio
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from elasticjob_etcd.embedded import EmbeddedEtcd

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")


@pytest.fixture(scope="session")
def torch_python() -> Path:
    """The interpreter with torch; without one the test is skipped."""
    python = Path(os.environ.get("ELASTICJOB_TORCH_PYTHON") or CACHE / "elasticjob/torch-venv/bin/python")
    if not python.exists():
        pytest.skip(f"there is no Python with torch at {python}: make test-torch makes one")
    has_torch = subprocess.run([python, "-c", "import torch"], capture_output=True, check=False).returncode == 0
    if not has_torch:
        pytest.skip(f"{python} has no torch: make test-torch makes one with torch")
    return python


@pytest.fixture(scope="session")
def etcd_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedEtcd]:
    """A real etcd; `.endpoint` is its address."""
    server = asyncio.run(EmbeddedEtcd.start(tmp_path_factory.mktemp("etcd"), client_port=0, timeout_s=60))
    yield server
    asyncio.run(server.stop())
