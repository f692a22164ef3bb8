"""What tests of launchers share: a census around each, and programs that launch in a Python of their own.

`census`, `main_module` and `ROOT` are for conftest files to take over; `background` differs, since each launcher has
long-lived processes of its own to begin before anything is counted.
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


@contextmanager
def programs(head: str = "") -> Iterator[Script]:
    """Run programs, each `head` and a text, in a Python of their own; they are gone in the end."""
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
