"""A part that fails or hangs costs the others nothing, and is named; an interrupted one keeps what it has measured."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.report import page, results, suite
from benchmarks.report.results import OURS, Report, Series
from testing.waiting import eventually

WAITS = """
import signal, sys, time
from pathlib import Path
from benchmarks.report import results
signal.signal(signal.SIGINT, signal.SIG_IGN)  # as in a shell's background
report = results.begin()
with results.keep(report, Path(sys.argv[1])):
    report.series.append(results.Series("recovery", "agent joins", "ours", (0.2,)))
    print("measured", flush=True)
    time.sleep(1000)
"""


def a_report(*failed: str) -> Report:
    return Report("now", {"load": "0"}, [Series("recovery", "agent joins", OURS, (0.2,))], failed=list(failed))


@pytest.mark.parametrize("name", suite.PARTS)
def test_each_part_has_a_program(name: str) -> None:
    assert importlib.util.find_spec(suite.MODULES[name]) is not None


def test_all_sizes_have_the_same_parts() -> None:
    assert list(suite.QUICK) == list(suite.PARTS) == list(suite.FULL)


def test_a_part_that_ends_badly_is_named_by_its_exit_code() -> None:
    assert suite.run_part([sys.executable, "-c", "raise SystemExit(3)"], 60.0) == "ended with 3"


def test_a_part_that_hangs_is_ended() -> None:
    assert suite.run_part([sys.executable, "-c", "import time; time.sleep(1000)"], 0.5) == "was not done within 0.5 s"


def test_a_part_that_is_ended_keeps_its_samples(tmp_path: Path) -> None:
    kept = tmp_path / "part.json"
    command = [sys.executable, "-c", WAITS, str(kept)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        suite.end(process)
    report = results.load(kept)
    assert [series.p50 for series in report.series] == [0.2]
    assert report.failed == ["KeyboardInterrupt: "]


def test_what_failed_in_a_part_is_on_the_page_beside_what_did_not(tmp_path: Path) -> None:
    a_report("agent SIGKILLed, ours, repetition 3: AssertionError: no round 2").save(tmp_path / "recovery.json")
    whole = suite.kept({"recovery": "", "planning": ""}, tmp_path)
    written = page.page(whole, [], "x", {})
    assert "- `agent SIGKILLed, ours, repetition 3" in written
    assert "| agent joins | 1 | 200 ms |" in written


def test_a_repetition_that_does_not_come_about_is_noted_and_ends_nothing() -> None:
    report = a_report()
    with results.attempt(report, "agent joins, ours"):
        eventually(lambda: False, within_s=0, what="round 2")
    assert len(report.failed) == 1
    assert report.failed[0].startswith("agent joins, ours: AssertionError: ")


def test_a_part_that_missed_something_saves_first_and_then_fails(tmp_path: Path) -> None:
    with pytest.raises(SystemExit), results.keep(a_report("one of them"), tmp_path / "part.json"):
        pass
    assert results.load(tmp_path / "part.json").failed == ["one of them"]


def test_a_part_measured_alone_replaces_its_groups_in_the_published_report() -> None:
    published = results.Report("Monday", {"load": "1", "processor": "A"}, [_series("steps", 1.0), _series("idle", 2.0)])
    new = results.Report(
        "Tuesday", {"load": "0", "processor": "B", "torch": "2.13"}, [_series("steps", 3.0)], failed=["one"]
    )
    whole = suite.renewed(published, new, "steps")
    assert [(each.group, each.p50) for each in whole.series] == [("idle", 2.0), ("steps", 3.0)]
    assert whole.machine == {
        "load": "1",
        "processor": "A",
        "torch": "2.13",
        "steps began": "Tuesday, processor B, load 0",
    }
    assert (whole.began, whole.failed) == ("Monday", ["one"])


def _series(group: str, value: float) -> results.Series:
    return results.Series(group, "what", results.OURS, (value,))
