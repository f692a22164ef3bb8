"""What the tests of spawn share: a census around each, begun after the library's own long-lived processes."""

from collections.abc import Iterator
from multiprocessing import resource_tracker

import pytest

from elasticjob_agent.spawn import start_processes
from testing.processes.census import Census
from tests.integration.spawn import functions
from tests.integration.supervisor.launching import Script, census, main_module, programs  # noqa: F401  # fixtures


@pytest.fixture(scope="session")
def background() -> None:
    """The starter, the fork server and multiprocessing's tracker live as long as this process: no leak of a test."""
    resource_tracker.ensure_running()
    for method in ("spawn", "forkserver"):
        start_processes(functions.nothing, start_method=method)


@pytest.fixture
def script(census: Census) -> Iterator[Script]:  # noqa: F811  # the fixture above
    """Run a program in a Python of its own, which is gone in the end."""
    del census
    with programs() as run:
        yield run
