"""Fixtures over one real kube-apiserver for the whole session, and a fresh namespace for every test.

The programs come from `hack/kube-tools`, before the first test's time-out runs, since a cold build takes minutes.
Where they cannot be had every test here fails with the reason; none is skipped.
"""

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from elasticjob_etcd.server import EtcdServer
from tests.faults.apiserver import ApiServer, KubeToolsError, Programs, kube_programs
from tests.faults.waiting import eventually
from tests.integration.kube.namespace import Namespace
from tests.integration.kube.rig import RBAC, Rig, service_account_token

CRD = Path(__file__).resolve().parents[3] / "crds" / "elasticjob.yaml"

_PROGRAMS = pytest.StashKey[Programs | KubeToolsError]()
_numbers = itertools.count(1)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Get the programs if any test of the session needs them."""
    if session.config.option.collectonly or not any(item.get_closest_marker("kube") for item in session.items):
        return
    try:
        session.config.stash[_PROGRAMS] = kube_programs()
    except KubeToolsError as error:
        session.config.stash[_PROGRAMS] = error


@pytest.fixture(scope="session")
def programs(pytestconfig: pytest.Config) -> Programs:
    found = pytestconfig.stash[_PROGRAMS]
    if isinstance(found, KubeToolsError):
        pytest.fail(str(found), pytrace=False)
    return found


@pytest.fixture(scope="session")
def server(programs: Programs, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    with ApiServer(programs, tmp_path_factory.mktemp("kube")) as running:
        yield running


@pytest.fixture(scope="session")
def crd(server: ApiServer) -> ApiServer:
    """The server with the CRD installed and served."""
    applied = server.kubectl("apply", "--server-side", "-f", str(CRD))
    assert applied.returncode == 0, applied.stderr
    await_crd(server, "elasticjobs.elasticjob.io")
    return server


def await_crd(server: ApiServer, name: str) -> None:
    """Wait until it is served; in its first moment it has no conditions at all, and `kubectl wait` fails on that."""
    wait = ("wait", "--for=condition=Established", f"crd/{name}", "--timeout=30s")
    eventually(lambda: server.kubectl(*wait).returncode == 0, within_s=30, what=f"CRD {name} established", pause_s=0.2)


@pytest.fixture
def namespace(crd: ApiServer) -> Namespace:
    """A namespace that no other test uses; it goes with the server, since no controller could delete it."""
    fresh = Namespace(crd, f"test-{next(_numbers)}")
    fresh.create()
    return fresh


@pytest.fixture(scope="session")
def operator_token(crd: ApiServer) -> str:
    """A token of the operator's service account, which has the role of `deploy/rbac.yaml`."""
    applied = crd.kubectl("apply", *(f"--filename={path}" for path in RBAC))
    assert applied.returncode == 0, applied.stderr
    return service_account_token(crd)


@pytest.fixture
def rig(namespace: Namespace, operator_token: str, etcd_server: EtcdServer, tmp_path: Path) -> Iterator[Rig]:
    """A namespace for an operator and a node, which the test starts; they end with it."""
    made = Rig(namespace, etcd=etcd_server.endpoint, token=operator_token, folder=tmp_path)
    yield made
    made.close()
