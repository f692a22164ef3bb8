"""Fixtures of launcher tests: a census around each, and programs that launch in a Python of their own.

Conftest files import `census`, `main_module` and `ROOT`. They have a `background` of their own, because each launcher
starts other long-lived processes before the census.
"""

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from testing.processes.census import MARKER, Census
from testing.waiting import eventually

ROOT = Path(__file__).parents[3]

Script = Callable[[str], "subprocess.Popen[str]"]


@pytest.fixture(autouse=True)
def main_module(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide the main module, pytest: a spawned process would import it and take three times as long."""
    main = sys.modules["__main__"]
    monkeypatch.setattr(main, "__spec__", None)
    monkeypatch.delattr(main, "__file__", raising=False)


@pytest.fixture(autouse=True)
def census(background: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[Census]:
    """Check that no test leaves anything."""
    del background
    with Census() as census:
        monkeypatch.setenv(MARKER, census.token)
        yield census
        eventually(lambda: not census.found(), within_s=30, what=f"nothing left, but found {census.found()}")


@contextmanager
def programs(head: str = "") -> Iterator[Script]:
    """Run programs, each `head` and a text, in a Python of their own, and end them."""
    running: list[subprocess.Popen[str]] = []

    def run(text: str) -> "subprocess.Popen[str]":
        command = [sys.executable, "-c", head + text]
        program = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        running.append(program)
        return program

    yield run
    for program in running:
        program.kill()
        program.communicate()
