"""Limits for the size of a job's spec: a program that reads it needs up to twenty times the text in memory.

An API server stores 1.5 MB of an object, and the pod template of a job may hold any fields. Specs of real jobs have
some 10 KB and a few hundred values. Larger ones hold data, which belongs into a ConfigMap or in the image.
"""

import sys
from dataclasses import dataclass
from typing import Any

JOB_BYTES = 256 * 1024
"""Characters of texts and names in a spec, as UTF-8."""
JOB_VALUES = 10_000
"""Fields and items of lists in a spec."""
_NUMBER = 8


@dataclass(frozen=True, slots=True)
class Size:
    """The size of a value that was read from JSON."""

    bytes: int
    """Of texts, names of fields and numbers, without punctuation; about the length of the JSON."""
    values: int
    memory: int
    """The memory of this process that the value uses."""

    @property
    def fault(self) -> str:
        """Return the reason why the value cannot be the spec of a job, with the cure; empty if it can be one."""
        cure = "keep scripts and data in a ConfigMap or in the image"
        if self.values > JOB_VALUES:
            return f"has more than {JOB_VALUES} fields and items; {cure}"
        return f"has more than {JOB_BYTES >> 10} KiB of text; {cure}" if self.bytes > JOB_BYTES else ""


def size_of(value: Any, *, most_values: int = JOB_VALUES, most_bytes: int = JOB_BYTES) -> Size:
    """Return the size of a value; counting stops once a limit is exceeded."""
    texts, memory, values = 0, sys.getsizeof(value), 0
    names: set[int] = set()
    waiting = [value]
    while waiting and values <= most_values and texts <= most_bytes:
        each = waiting.pop()
        if isinstance(each, dict):
            texts += sum(map(_length, each))
            new = [name for name in each if id(name) not in names]  # the JSON parser shares equal names
            names.update(map(id, new))
            memory += sum(map(sys.getsizeof, new))
        elif not isinstance(each, list):
            texts += _length(each)
            continue
        inner = list(each.values()) if isinstance(each, dict) else each
        values += len(inner)
        memory += sum(map(sys.getsizeof, inner))
        waiting += inner
    return Size(texts, values, memory)


def _length(value: Any) -> int:
    if not isinstance(value, str):
        return _NUMBER
    return len(value) if value.isascii() else len(value.encode(errors="surrogatepass"))
