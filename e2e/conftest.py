"""Fixtures: one cluster for the session, a namespace for each module, artifacts of failed tests, measured seconds.

The cluster is created before the timeout of the first test begins, since a cold one takes minutes. Without a cluster
every test fails with the reason; none is skipped.
"""

import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from e2e import artifacts, latencies
from e2e.cluster import Cluster
from e2e.programs import ProgramFailed
from e2e.shared_volume import SharedVolume, shared_volume
from e2e.space import Space
from e2e.torch_python import TorchPython, find_torch_python

_CLUSTER = pytest.StashKey[Cluster]()
_FAULT = pytest.StashKey[str]()
_TORCH = pytest.StashKey[TorchPython]()
_MEASURED = pytest.StashKey[list[latencies.Measurement]]()
Measured = Callable[[str, float], None]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--keep-cluster` and `--cluster NAME`."""
    group = parser.getgroup("e2e")
    group.addoption("--keep-cluster", action="store_true", help="do not delete the kind cluster at the end")
    group.addoption("--latencies", help="file for the measured latencies, as a table in Markdown")
    group.addoption("--cluster", default="e2e", help="name of the kind cluster [e2e]; an existing one is used and kept")


def pytest_configure(config: pytest.Config) -> None:
    """Create the list of measurements."""
    config.stash[_MEASURED] = []


def pytest_collection_finish(session: pytest.Session) -> None:
    """Create the cluster if there is any test to run."""
    config = session.config
    if config.option.collectonly or not session.items:
        return
    cluster = config.stash[_CLUSTER] = Cluster(config.option.cluster, keep=config.option.keep_cluster)
    with config.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
        try:
            if any(item.get_closest_marker("torch") for item in session.items):
                config.stash[_TORCH] = find_torch_python()
                cluster.folders = config.stash[_TORCH].folders
            cluster.up()
        except ProgramFailed as error:
            config.stash[_FAULT] = str(error)


def pytest_unconfigure(config: pytest.Config) -> None:
    """Remove a cluster that this run has created."""
    if (cluster := config.stash.get(_CLUSTER, None)) is not None:
        cluster.down()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, exitstatus: int, config: pytest.Config) -> None:
    """Print the measurements; after a run without failures, write them to the given file. None is asserted."""
    measured = config.stash[_MEASURED]
    if not measured:
        return
    terminalreporter.section("measured, s")
    for one in measured:
        terminalreporter.write_line(f"{one.seconds:7.2f}  {one.what} ({one.install})")
    if config.option.latencies and exitstatus == 0:
        Path(config.option.latencies).write_text(latencies.page(measured))


@pytest.fixture(scope="session")
def cluster(pytestconfig: pytest.Config) -> Cluster:
    """Return the cluster, with everything installed."""
    if fault := pytestconfig.stash.get(_FAULT, ""):
        pytest.fail(f"no cluster for these tests, and they never skip: {fault}", pytrace=False)
    return pytestconfig.stash[_CLUSTER]


@pytest.fixture(scope="session")
def torch_python(cluster: Cluster, pytestconfig: pytest.Config) -> TorchPython:
    """Return the Python with torch that the workers of the cluster have; its tests are marked `torch`."""
    assert cluster.folders
    return pytestconfig.stash[_TORCH]


@pytest.fixture(scope="session", autouse=True)
def _installation(cluster: Cluster, pytestconfig: pytest.Config) -> None:
    """Measure the time of the installation, too."""
    what = "helm upgrade -> ready, over an older one" if cluster.was_installed else "helm install -> ready"
    pytestconfig.stash[_MEASURED].append(latencies.Measurement(latencies.PINNED, what, cluster.installed_s))


@pytest.fixture(scope="module")
def space(cluster: Cluster, request: pytest.FixtureRequest) -> Iterator[Space]:
    """A namespace for the one job of a module; its state is kept in files if one of the tests failed."""
    yield from _namespace(cluster, request, request.module.__name__.rpartition(".")[2])


@pytest.fixture
def own_space(cluster: Cluster, request: pytest.FixtureRequest) -> Iterator[Space]:
    """The same for one test, when each test of a module has a job of its own."""
    digest = hashlib.sha256(request.node.name.encode()).hexdigest()[:6]
    yield from _namespace(cluster, request, f"{request.module.__name__.rpartition('.')[2]}-{digest}")


@pytest.fixture
def volume(own_space: Space) -> Iterator[SharedVolume]:
    """A volume that all pods of the namespace share."""
    with shared_volume(own_space) as made:
        yield made


def _namespace(cluster: Cluster, request: pytest.FixtureRequest, name: str) -> Iterator[Space]:
    failed_before = request.session.testsfailed
    made = Space(cluster, name.replace("_", "-"))
    cluster.kubectl("delete", "namespace", made.name, "--ignore-not-found")
    cluster.kubectl("create", "namespace", made.name)
    # Without it no pod can be created there, and a controller that has just restarted may take its time.
    cluster.kubectl("wait", "-n", made.name, "serviceaccount/default", "--for=create", "--timeout=60s")
    yield made
    if request.session.testsfailed > failed_before:
        print(f"kept in {artifacts.keep(made)}")
    cluster.kubectl("delete", "namespace", made.name, "--wait=false")


@pytest.fixture(scope="session")
def measured_on(pytestconfig: pytest.Config) -> Callable[[str], Measured]:
    """Return a function from the name of an install to a recorder of its measurements."""

    def on(install: str) -> Measured:
        def record(what: str, seconds: float) -> None:
            pytestconfig.stash[_MEASURED].append(latencies.Measurement(install, what, seconds))

        return record

    return on


@pytest.fixture(scope="session")
def measured(measured_on: Callable[[str], Measured]) -> Measured:
    """Return a recorder of measurements, for the summary."""
    return measured_on(latencies.PINNED)
