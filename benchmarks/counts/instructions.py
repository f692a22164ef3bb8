"""Instructions of the pure parts, as callgrind counts them: a clock on a busy machine cannot measure them.

The program under valgrind is `marked`: one start of an interpreter, and a dump of the counters after each work. With a
fixed hash seed and environment the numbers are equal to the last instruction. That is so on an idle machine, and on
one with seven other processes on two cores. Changes that move every address (1,500 bytes of environment, a changed
module elsewhere) change them by 1 % at most. Another build of Python does the same work with 14 % less, so a baseline
is valid for one interpreter only.
"""

import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

from benchmarks.counts import marked
from benchmarks.counts.record import Count, tool
from benchmarks.counts.works import works

_ROOT = Path(__file__).parents[2]
_LONGEST_S = 300.0
_TOTAL = re.compile(r"^totals: (\d+)$", re.MULTILINE)
_TOLERANCE = 0.05
"""Five times the effect of moved addresses; a smaller difference is no regression."""


def take() -> list[Count]:
    """Return thousands of instructions of each work, run once."""
    names = list(works())
    with tempfile.TemporaryDirectory(prefix="elasticjob-bench-") as folder:
        counted = counted_between_marks([sys.executable, "-m", marked.__name__], Path(folder))
    if len(counted) != len(names):
        raise AssertionError(
            f"callgrind saw {len(counted)} marks of {len(names)} works: does {marked.MARK} exist here?"
        )
    return [
        Count(f"1,000 instructions: {name}", value / 1000, tolerance=_TOLERANCE, of_interpreter=True)
        for name, value in zip(names, counted, strict=True)
    ]


def counted_between_marks(command: Iterable[str], folder: Path) -> list[int]:
    """Return the instructions from each mark to the next."""
    out = folder / "callgrind"
    valgrind = [tool("valgrind"), "--tool=callgrind", f"--callgrind-out-file={out}", f"--dump-before={marked.MARK}"]
    done = subprocess.run(
        [*valgrind, *command],
        cwd=_ROOT,
        env={"PYTHONPATH": str(_ROOT), "PYTHONHASHSEED": "0"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        timeout=_LONGEST_S,
        check=False,
    )
    if done.returncode != 0:
        raise AssertionError(f"the program under callgrind ended with {done.returncode}:\n{done.stderr[-2000:]}")
    dumps = sorted(folder.glob("callgrind.*"), key=lambda path: int(path.suffix[1:]))
    return [_total(dump) for dump in dumps[1:]]  # the first is of everything before the first mark


def _total(dump: Path) -> int:
    found = _TOTAL.search(dump.read_text())
    if found is None:
        raise AssertionError(f"{dump} has no total: callgrind has changed its format")
    return int(found[1])
