"""Fixtures of the launch tests: a census around each, after the start of the library's own long-lived processes."""

from collections.abc import Iterator
from multiprocessing import resource_tracker
from pathlib import Path

import pytest

from elasticjob_agent.launch import launch
from testing.processes.census import Census
from tests.integration.launch import functions
from tests.integration.supervisor.launching import Script, census, main_module, programs  # noqa: F401  # fixtures


@pytest.fixture(scope="session")
def background() -> None:
    """Start fork servers and multiprocessing's tracker, which live as long as this process, before a census."""
    resource_tracker.ensure_running()
    for method in ("spawn", "forkserver"):
        launch(functions.nothing, None, 1, start_method=method)


@pytest.fixture
def script(census: Census, tmp_path: Path) -> Iterator[Script]:  # noqa: F811  # the fixture above
    """Run a launching program in a Python of its own, and end it."""
    del census
    head = (
        "import os, signal, sys, time\nfrom pathlib import Path\n"
        "from elasticjob_agent.launch import *\nfrom tests.integration.launch import functions\n"
        f"folder = Path({str(tmp_path)!r})\n"
    )
    with programs(head) as run:
        yield run
