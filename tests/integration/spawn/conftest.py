"""What the tests of spawn share: a census around each, begun after the library's own long-lived processes."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from multiprocessing import resource_tracker
from pathlib import Path

import pytest

from elasticjob_agent.spawn import start_processes
from tests.faults.waiting import eventually
from tests.integration.spawn import functions
from tests.integration.supervisor.census import MARKER, Census

ROOT = Path(__file__).parents[3]

Script = Callable[[str], "subprocess.Popen[str]"]


@pytest.fixture(scope="session")
def background() -> None:
    """The starter, the fork server and multiprocessing's tracker live as long as this process: no leak of a test."""
    resource_tracker.ensure_running()
    for method in ("spawn", "forkserver"):
        start_processes(functions.nothing, start_method=method)


@pytest.fixture(autouse=True)
def _main_module(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is spawned would import the main module, pytest, and take three times as long."""
    main = sys.modules["__main__"]
    monkeypatch.setattr(main, "__spec__", None)
    monkeypatch.delattr(main, "__file__", raising=False)


@pytest.fixture(autouse=True)
def census(background: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[Census]:
    """Nothing is left behind by any test."""
    del background
    with Census() as census:
        monkeypatch.setenv(MARKER, census.token)
        yield census
        eventually(lambda: not census.found(), within_s=30, what=f"nothing left; but {census.found()}")


@pytest.fixture
def script(census: Census) -> Iterator[Script]:
    """Run a program in a Python of its own, which is gone in the end."""
    del census
    running: list[subprocess.Popen[str]] = []

    def run(text: str) -> "subprocess.Popen[str]":
        program = subprocess.Popen(
            [sys.executable, "-c", text], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        running.append(program)
        return program

    yield run
    for program in running:
        program.kill()
        program.communicate()
