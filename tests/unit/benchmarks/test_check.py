"""The gate of counts: above the tolerance fails, below the baseline is reported, and a count can grow."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from benchmarks.counts import calls
from benchmarks.counts.record import Count
from benchmarks.report import check


@pytest.mark.parametrize(
    ("value", "message"),
    [(10.0, ""), (11.0, ""), (11.2, "regressed"), (9.5, ""), (5.0, "improved")],
    ids=["as before", "at the limit", "above it", "a little less", "far less"],
)
def test_a_count_is_compared_with_its_baseline(value: float, message: str) -> None:
    assert check.verdict(Count("requests", value), 10.0).startswith(message)


def test_a_count_without_a_baseline_fails() -> None:
    assert check.failed([check.verdict(Count("new", 1.0), None)])


def test_an_improvement_fails_nothing() -> None:
    assert not check.failed(["", check.verdict(Count("requests", 1.0), 10.0)])


def test_every_committed_baseline_is_a_number() -> None:
    baseline = check.Baseline.load(check.BASELINE)
    assert baseline.counts
    assert all(isinstance(value, (int, float)) for value in baseline.counts.values())


def gate(baseline: Path, counter: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "benchmarks.report.check", "--only", counter, "--baseline", str(baseline)]
    return subprocess.run(command, env=os.environ | environment, capture_output=True, text=True, check=False)


def test_the_gate_ends_with_1_for_a_count_above_its_baseline_and_with_0_for_one_that_is_not(tmp_path: Path) -> None:
    kept, less = check.BASELINE, tmp_path / "less.json"
    less.write_text(json.dumps({name: value / 2 for name, value in check.Baseline.load(kept).counts.items()}))
    now, then = gate(kept, "calls"), gate(less, "calls")
    assert (now.returncode, then.returncode) == (0, 1), now.stdout + then.stdout
    assert "regressed: at most 0.65 is tolerated" in then.stdout


@pytest.mark.parametrize(("ci", "code"), [("false", 0), ("true", 1)], ids=["at home", "in CI"])
def test_a_count_that_cannot_be_taken_is_named_and_fails_in_ci(tmp_path: Path, ci: str, code: int) -> None:
    known = tmp_path / "known.json"
    known.write_text(json.dumps({"1,000 instructions: a plan": 7.0}))
    done = gate(known, "instructions", PATH=str(tmp_path), CI=ci)
    assert done.returncode == code, done.stderr
    line = next(line for line in done.stdout.splitlines() if line.startswith("1,000 instructions: a plan"))
    assert "NOT TAKEN: there is no valgrind in PATH" in line


def test_every_name_of_the_baseline_that_nobody_counted_is_told_with_its_reason() -> None:
    names = ["1,000 instructions: a plan", "requests that once were"]
    message = check.untaken(names, {"instructions": "NOT TAKEN: no valgrind"})
    assert message["1,000 instructions: a plan"] == "NOT TAKEN: no valgrind"
    assert check.failed([message["requests that once were"]], strict=False)


def test_instructions_of_another_python_are_not_compared_and_that_fails_in_ci_only() -> None:
    known = check.Baseline("CPython 2.7.18", {"work": 10.0})
    message = check.compared(Count("work", 20.0, of_interpreter=True), known)
    assert message.startswith("NOT COMPARED")
    assert (check.failed([message], strict=False), check.failed([message], strict=True)) == (False, True)


def linear(nodes: int) -> Callable[[], Any]:
    return lambda: [abs(node) for node in range(nodes)]


def quadratic(nodes: int) -> Callable[[], Any]:
    return lambda: [abs(other) for node in range(nodes // 50) for other in range(nodes // 50)]


def test_a_linear_act_and_a_quadratic_one_are_told_apart() -> None:
    assert calls.growth(linear) == pytest.approx(1.0, abs=0.01)
    assert calls.growth(quadratic) == pytest.approx(2.0, abs=0.01)


def test_planning_a_round_and_taking_a_place_are_linear_at_most() -> None:
    assert max(calls.growth(calls.closer_plans), calls.growth(calls.member_places)) < 1.1
