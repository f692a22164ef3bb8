"""After each row of the tree-reaping matrix nothing lives: the count is a PID namespace's, from which nobody can hide.

A namespace has a process table of its own, and whatever a tree does (drop its environment, leave its session, fork
twice) it stays inside. So the matrix runs once more as the only thing in such a namespace, and what the table lists
afterwards, zombies too, is what was left.
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
"""For root, and for others where they may have user namespaces."""
_ENDS = ("a stop", "a stop after the leader has left", "a sweep", "a killed agent")
_ROWS = {f"{end} of {shape}" for end in _ENDS for shape in TREES}


def _in_namespace(*arguments: str) -> dict[str, list[str]]:
    """For each row that was run, the command lines of what it has left."""
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


def test_the_census_finds_a_daemon_without_environment_that_nobody_has_ended() -> None:
    [(row, left)] = _in_namespace("leave").items()
    assert (row, left) == ("nobody's", ["sleep 1000"])


def test_after_every_row_of_the_matrix_nothing_of_the_tree_lives() -> None:
    left = _in_namespace("matrix")
    assert set(left) == _ROWS
    assert {row: found for row, found in left.items() if found} == {}
