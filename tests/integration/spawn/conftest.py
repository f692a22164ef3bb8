"""Fixtures of the spawn tests: a census around each, after the start of the library's own long-lived processes."""

from collections.abc import Iterator
from multiprocessing import resource_tracker

import pytest

from elasticjob_agent.spawn import start_processes
from testing.processes.census import Census
from tests.integration.spawn import functions
from tests.integration.supervisor.launching import Script, census, main_module, programs  # noqa: F401  # fixtures


@pytest.fixture(scope="session")
def background() -> None:
    """Start fork servers and multiprocessing's tracker, which live as long as this process, before a census."""
    resource_tracker.ensure_running()
    for method in ("spawn", "forkserver"):
        start_processes(functions.nothing, start_method=method)


@pytest.fixture
def script(census: Census) -> Iterator[Script]:  # noqa: F811  # the fixture above
    """Run a program in a Python of its own, and end it."""
    del census
    with programs() as run:
        yield run
