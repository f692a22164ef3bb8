"""Fixtures of these tests: background and fork server started beforehand, a census around each, a start function."""

import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pytest

from elasticjob_agent.multiprocessing import PContext, start_processes
from elasticjob_agent.multiprocessing.logs import FlatLogsSpecs
from testing.processes.census import MARKER, Census
from testing.waiting import eventually
from tests.integration.multiprocessing import functions

Start = Callable[..., PContext]


@pytest.fixture(scope="session", autouse=True)
def _warm(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Start both fork servers before a census: they live as long as the process and are not left by a test."""
    specs = FlatLogsSpecs(str(tmp_path_factory.mktemp("warm")))
    start_processes("warm", functions.nothing, {0: ()}, None, specs, start_method="forkserver").wait()


@pytest.fixture(autouse=True)
def census(_warm: None) -> Iterator[Census]:
    """Check that nothing is left; the fork server of a parent that has just died needs a moment to end."""
    with Census() as census:
        yield census
        eventually(lambda: not census.found(), within_s=30, what=f"nothing left, but found {census.found()}")


@pytest.fixture
def start(tmp_path: Path, census: Census) -> Iterator[Start]:
    """Return `start_processes` with a log_dir of its own and without signal handlers; close what it started."""
    contexts: list[PContext] = []

    def start(entrypoint: Any, args: dict[int, Any], envs: Any = None, **options: Any) -> PContext:
        if "logs_specs" not in options and "log_dir" not in options:
            options["log_dir"] = tempfile.mkdtemp(dir=tmp_path)
        envs = envs or {rank: {} for rank in args}
        envs = {rank: {MARKER: census.token, **env} for rank, env in envs.items()}
        with redirect_stdout(options.pop("console", sys.stdout)):
            context = start_processes("w", entrypoint, args, envs, **options)
        contexts.append(context)
        return context

    yield start
    for context in contexts:
        context.close(timeout=0)
