"""The batches in which the missing pods of a job are created.

Batches have 1, 2, 4, … pods, as in the Job controller of Kubernetes. The first error ends the reconcile. So a job whose
pods are all rejected costs the API server one request per reconcile, whatever its size.
"""

import itertools
from collections.abc import Iterator, Sequence
from typing import TypeVar

T = TypeVar("T")


def batches(items: Sequence[T]) -> Iterator[Sequence[T]]:
    """Yield the items in their order, in batches of doubling size."""
    start = 0
    for size in (2**n for n in itertools.count()):
        if start >= len(items):
            return
        yield items[start : start + size]
        start += size
