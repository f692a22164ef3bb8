"""PURE: in which batches the missing pods of a job are created.

As the Job controller of Kubernetes: 1, 2, 4, … at a time. One error ends the turn, so a job whose pods are all
refused costs the API server one request a turn, whatever its size.
"""

import itertools
from collections.abc import Iterator, Sequence
from typing import TypeVar

T = TypeVar("T")


def batches(items: Sequence[T]) -> Iterator[Sequence[T]]:
    """The items in their order, in batches that double."""
    start = 0
    for size in (2**n for n in itertools.count()):
        if start >= len(items):
            return
        yield items[start : start + size]
        start += size
