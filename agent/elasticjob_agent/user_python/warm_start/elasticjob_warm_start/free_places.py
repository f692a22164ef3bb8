"""Fill the free places that the imports have left in Python's memory, so that a worker's own objects get new pages.

Python puts a new object into a free place among others of its size. These places are scattered over the pages that the
zygote shares with its workers. So a worker would copy a page for each few objects.
"""

import os
import sys

_POOL_BYTES = 1 << (14 if sys.version_info >= (3, 10) else 12)
"""Python's allocator takes memory for objects of one size by pools of this length."""
_STEP, _LARGEST = 16, 512
"""Objects have a multiple of this size there; larger ones come from the C library."""
_MAX_POOLS = 64
_BYTES_HEAD = 33


def fill() -> "list[list[object]]":
    """Return objects of each size, until those of the last pool have found no free place among older ones."""
    filling: "list[list[object]]" = []
    if sys.flags.dev_mode or os.environ.get("PYTHONMALLOC"):  # another allocator has other places
        return filling
    for size in range(_STEP, _LARGEST + 1, _STEP):
        for _ in range(_MAX_POOLS):
            pool = _objects_of(size)
            filling.append(pool)
            if _is_new(pool, size):
                break
    return filling


def _objects_of(size: int) -> "list[object]":
    """Return objects of this size, as many as a pool has, which the garbage collector ignores."""
    pool: "list[object]" = [None] * (_POOL_BYTES // size)  # a list that grows would leave free places itself
    for place in range(len(pool)):
        if size == _STEP:
            pool[place] = object()
        else:
            pool[place] = complex(1.5, 2.5) if size < _BYTES_HEAD else bytes(size - _BYTES_HEAD)
    return pool


def _is_new(pool: "list[object]", size: int) -> bool:
    """Whether these objects lie one behind the other, as in a pool that was empty; a few others may lie in between."""
    gaps = sum(id(pool[place]) - id(pool[place - 1]) != size for place in range(1, len(pool)))
    return gaps <= 3 + len(pool) // 64
