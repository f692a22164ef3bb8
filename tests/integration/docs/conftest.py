"""A reader with a cluster: an API server of the tests, and the commands of the pages on PATH."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from testing.servers.apiserver import ApiServer, Programs
from tests.integration.docs.typed import PROGRAMS


def with_cluster(programs: Programs, kubeconfig: Path) -> Mapping[str, str]:
    """Return the environment of a user whose kubectl uses this cluster."""
    path = os.pathsep.join((str(programs.kubectl.parent), str(PROGRAMS), os.environ["PATH"]))
    return {"KUBECONFIG": str(kubeconfig), "PATH": path}


@pytest.fixture
def own_server(programs: Programs, tmp_path: Path) -> Iterator[ApiServer]:
    """Yield a server for commands that change the whole cluster."""
    with ApiServer(programs, tmp_path) as running:
        yield running
