"""The program whose instructions callgrind counts: it does every work, with a mark before the first and after each.

A mark is a system call that no other code makes: callgrind dumps and resets its counters there. So neither the
interpreter's start nor an import is in a count, and one start is enough for all. Each work was done once before, to
fill caches; no garbage collection falls into it.
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
