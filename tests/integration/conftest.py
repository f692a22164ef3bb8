"""Fixtures of all integration tests: one real etcd and one real kube-apiserver a session, and a place in each.

The servers are shared, so a test writes only below its `prefix` or in its `namespace`. It neither compacts, stops nor
wipes them, and changes no object of all namespaces. A test that must do so starts a server of its own. The programs
of Kubernetes come from `hack/kube-tools`, before the first test's time-out runs, since a cold build takes minutes.
Where they cannot be had every test that needs them fails with the reason; none is skipped.
"""

import asyncio
import itertools
import signal
import tempfile
import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from elasticjob_etcd.client import EtcdClient
from elasticjob_etcd.embedded import EmbeddedEtcd
from testing.kube.namespace import Namespace
from testing.kube.shared_objects import restored
from testing.kube.stack import RBAC, KubeStack, service_account_token
from testing.servers.apiserver import ApiServer, KubeToolsError, Programs, await_crd, kube_programs
from tests.integration.kube.conftest import CRD

_PROGRAMS = pytest.StashKey[Programs | KubeToolsError]()
_numbers = itertools.count(1)

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a shell's background job, and what it starts, would ignore it
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def etcd_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedEtcd]:
    """A real etcd; `.endpoint` has its address."""
    server = asyncio.run(EmbeddedEtcd.start(tmp_path_factory.mktemp("etcd"), client_port=0, timeout_s=60))
    yield server
    asyncio.run(server.stop())


@pytest.fixture
async def etcd(etcd_server: EmbeddedEtcd) -> AsyncIterator[EtcdClient]:
    """A client of the shared etcd."""
    client = EtcdClient(etcd_server.endpoint)
    yield client
    await client.close()


@pytest.fixture
def prefix() -> str:
    """A prefix that no other test has."""
    return f"/test/{uuid.uuid4().hex}/"


@pytest.fixture
def own_config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """This user's configuration, for what the test starts too: the real one stays as it is."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "xdg"))
    return tmp_path / "xdg"


@pytest.fixture
def open_folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """One that everybody may enter and write to, as `/tmp`; nodes that meet on this machine do so in `own` there."""
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="ejo-") as folder:
        Path(folder).chmod(0o1777)
        monkeypatch.setenv("ELASTICJOB_SOCKET_DIR", f"{folder}/own")
        yield Path(folder)


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


@pytest.fixture
def namespace(crd: ApiServer) -> Namespace:
    """A namespace that no other test uses; it goes with the server, since no controller could delete it."""
    fresh = Namespace(crd, f"test-{next(_numbers)}")
    fresh.create()
    return fresh


@pytest.fixture(autouse=True)
def shared_objects(request: pytest.FixtureRequest) -> Iterator[None]:
    """Undo what a test does to objects that all tests of the server see."""
    server = request.getfixturevalue("server") if "server" in request.fixturenames else None
    # Other folders have a fixture `server` of their own.
    yield from restored(server) if isinstance(server, ApiServer) else (None,)


@pytest.fixture(scope="session")
def operator_token(crd: ApiServer) -> str:
    """A token of the operator's service account, which has the role of `deploy/rbac.yaml`."""
    applied = crd.kubectl("apply", *(f"--filename={path}" for path in RBAC))
    assert applied.returncode == 0, applied.stderr
    return service_account_token(crd)


@pytest.fixture
def rig(namespace: Namespace, operator_token: str, etcd_server: EmbeddedEtcd, tmp_path: Path) -> Iterator[KubeStack]:
    """A namespace for an operator and a node, which the test starts; they end with it."""
    made = KubeStack(namespace, etcd=etcd_server.endpoint, token=operator_token, folder=tmp_path)
    yield made
    made.close()
