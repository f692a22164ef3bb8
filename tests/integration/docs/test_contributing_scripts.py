"""The scripts of the contributing page that run another command: hack/busy, hack/nightly."""

import subprocess
from pathlib import Path

import psutil

from testing.waiting import scaled

ROOT = Path(__file__).resolve().parents[3]


def run(*command: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=scaled(60), check=False)


def loops() -> set[int]:
    """Return the processes of hack/busy, also of another instance beside these tests."""
    found = psutil.process_iter(["cmdline"])
    return {process.pid for process in found if (process.info["cmdline"] or [])[1:2] == ["hack/busy"]}


def test_busy_runs_a_command_beside_its_loops_and_ends_them_with_it() -> None:
    before = loops()
    count = "ps --no-headers --ppid $PPID -o args | grep -c '^bash hack/busy'"
    done = run("env", "LOOPS=3", "hack/busy", "bash", "-c", count)
    assert done.stdout.strip() == "3", done.stderr
    assert run("env", "LOOPS=1", "hack/busy", "false").returncode == 1
    assert loops() <= before


def test_nightly_keeps_the_result_of_a_part() -> None:
    for command, result, code in (("true", "passed", 0), ("false", "failed", 1)):
        done = run("hack/nightly", "probe", command)
        last = (ROOT / "dist/nightly/probe.txt").read_text().splitlines()[-1]
        assert done.returncode == code
        assert last.startswith(f"probe: {result} at ")
        assert last.endswith(" 0 minutes")
