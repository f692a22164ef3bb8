"""Fixtures: one cluster for the session, a namespace for each module, artifacts of what failed, measured seconds.

The cluster is made before the first test's time-out runs, since a cold one takes minutes. Where it cannot be had every
test fails with the reason; none is skipped.
"""

from collections.abc import Callable, Iterator

import pytest

from e2e import artifacts
from e2e.cluster import Cluster
from e2e.programs import ProgramFailed
from e2e.space import Space

_CLUSTER = pytest.StashKey[Cluster]()
_FAULT = pytest.StashKey[str]()
_MEASURED = pytest.StashKey[list[str]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--keep-cluster` and `--cluster NAME`."""
    group = parser.getgroup("e2e")
    group.addoption("--keep-cluster", action="store_true", help="leave the kind cluster there at the end")
    group.addoption(
        "--cluster", default="e2e", help="name of the kind cluster [e2e]; one that is there is used and kept"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Where measurements are gathered."""
    config.stash[_MEASURED] = []


def pytest_collection_finish(session: pytest.Session) -> None:
    """Make the cluster if there is any test to run."""
    config = session.config
    if config.option.collectonly or not session.items:
        return
    cluster = config.stash[_CLUSTER] = Cluster(config.option.cluster, keep=config.option.keep_cluster)
    with config.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
        try:
            cluster.up()
        except ProgramFailed as error:
            config.stash[_FAULT] = str(error)


def pytest_unconfigure(config: pytest.Config) -> None:
    """Take away what was made."""
    if (cluster := config.stash.get(_CLUSTER, None)) is not None:
        cluster.down()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Print what was measured; nothing is asserted about it."""
    if config.stash[_MEASURED]:
        terminalreporter.section("measured, s")
        for line in config.stash[_MEASURED]:
            terminalreporter.write_line(line)


@pytest.fixture(scope="session")
def cluster(pytestconfig: pytest.Config) -> Cluster:
    """The cluster, with everything installed."""
    if fault := pytestconfig.stash.get(_FAULT, ""):
        pytest.fail(f"no cluster for these tests, and they never skip: {fault}", pytrace=False)
    return pytestconfig.stash[_CLUSTER]


@pytest.fixture(scope="module")
def space(cluster: Cluster, request: pytest.FixtureRequest) -> Iterator[Space]:
    """A namespace for the one job of a module; what is in it is kept in files if one of its tests failed."""
    failed_before = request.session.testsfailed
    made = Space(cluster, request.module.__name__.rpartition(".")[2].replace("_", "-"))
    cluster.kubectl("delete", "namespace", made.name, "--ignore-not-found")
    cluster.kubectl("create", "namespace", made.name)
    yield made
    if request.session.testsfailed > failed_before:
        print(f"kept in {artifacts.keep(made)}")
    cluster.kubectl("delete", "namespace", made.name, "--wait=false")


@pytest.fixture(scope="session")
def measured(pytestconfig: pytest.Config) -> Callable[[str, float], None]:
    """Tell what took how many seconds, for the summary."""

    def tell(what: str, seconds: float) -> None:
        pytestconfig.stash[_MEASURED].append(f"{seconds:7.2f}  {what}")

    return tell
