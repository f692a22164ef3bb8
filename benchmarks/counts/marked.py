"""The program whose instructions callgrind counts: it does every work, with a mark before the first and after each.

A mark is a system call that nothing else makes: callgrind writes down its counters and begins anew there. So neither
the interpreter's start nor an import is in a count, and one start is enough for all. Each work was done once before,
when what is kept has been kept; no collection of garbage falls into it.
"""

import gc
import os

from benchmarks.counts.works import works

MARK = "getppid"
"""The C library's function behind `os.getppid`."""


def main() -> None:
    """Prepare everything, then count."""
    prepared = works()
    for work in prepared.values():
        work()
    gc.collect()
    gc.disable()
    os.getppid()
    for work in prepared.values():
        work()
        os.getppid()


if __name__ == "__main__":
    main()
