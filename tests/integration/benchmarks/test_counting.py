"""The counters of `make bench-check`: twice the work is twice the instructions, and one more call is one more call."""

import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.counts import syscalls
from benchmarks.counts.instructions import counted_between_marks
from benchmarks.counts.works import works

_ROOT = Path(__file__).parents[3]
_WORK = """
import gc, os
def work(times):
    for _ in range(times):
        sorted(str(number) for number in range(20_000))
work(1)
gc.disable()
os.getppid()
for times in (1, 2):
    work(times)
    os.getppid()
"""


@pytest.fixture(scope="module", autouse=True)
def tools() -> None:
    subprocess.run([_ROOT / "hack" / "counting-tools"], check=True, stdout=subprocess.DEVNULL)


def test_a_work_that_is_done_twice_takes_twice_the_instructions(tmp_path: Path) -> None:
    once, twice = counted_between_marks([sys.executable, "-I", "-S", "-c", _WORK], tmp_path)
    assert once > 1_000_000
    assert twice / once == pytest.approx(2.0, rel=0.05)


def test_system_calls_that_a_program_makes_beyond_another_are_counted() -> None:
    more = syscalls.counted("import os\nfor _ in range(500): os.getuid()") - syscalls.counted("import os")
    assert more == pytest.approx(500, abs=5)


def test_every_work_that_is_counted_can_be_done_again_and_again() -> None:
    for work in works().values():
        assert work() == work()
