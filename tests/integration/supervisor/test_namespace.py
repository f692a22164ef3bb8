"""After each row of the tree-reaping matrix nothing lives, by the process table of a PID namespace.

A namespace has a process table of its own. A tree stays inside, even if it drops its environment, leaves its session or
forks twice. So the matrix runs once more, alone in such a namespace. Every process in the table afterwards, zombies
too, was left by a tree.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from testing.waiting import scaled
from tests.integration.supervisor.trees import TREES

_ROOT = Path(__file__).resolve().parents[3]
_UNSHARE = ("unshare", "--pid", "--fork", "--mount-proc", "--kill-child")
_AS_ROOT = (_UNSHARE, (*_UNSHARE, "--user", "--map-root-user"))
"""Commands for root, and for other users if they may have user namespaces."""
_ENDS = ("a stop", "a stop after the leader has left", "a sweep", "a killed agent")
_ROWS = {f"{end} of {shape}, started {start}" for end in _ENDS for shape in TREES for start in ("cold", "warm")}


def _in_namespace(*arguments: str) -> dict[str, list[str]]:
    """Return the command lines of the processes that each row has left."""
    command = [*_unshare(), sys.executable, "-m", "tests.integration.supervisor.matrix", *arguments]
    done = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, check=False, timeout=scaled(100))
    assert done.returncode == 0, done.stderr
    left: dict[str, list[str]] = json.loads(done.stdout)
    return left


def _unshare() -> tuple[str, ...]:
    for way in _AS_ROOT:
        tried = subprocess.run([*way, "true"], capture_output=True, text=True, check=False)
        if tried.returncode == 0:
            return way
    pytest.skip(f"no PID namespaces here: {tried.stderr.strip()}")


def test_the_census_finds_a_daemon_without_environment() -> None:
    [(row, left)] = _in_namespace("leave").items()
    assert (row, left) == ("a daemon", ["sleep 1000"])


def test_after_every_row_of_the_matrix_nothing_of_the_tree_lives() -> None:
    left = _in_namespace("matrix")
    assert set(left) == _ROWS
    assert {row: found for row, found in left.items() if found} == {}
