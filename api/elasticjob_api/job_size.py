"""How large the spec of a job may be: what a program has in memory to read it, twenty times the text at the worst.

An API server stores 1.5 MB of an object, and the pod template of a job may hold any fields. Specs of real jobs have
some 10 KB and a few hundred values. Larger ones hold data, which has its place in a ConfigMap or in the image.
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
    """Of a value that was read from JSON."""

    bytes: int
    """Of texts, names of fields and numbers, without the signs between them; about the length of the JSON."""
    values: int
    memory: int
    """The memory that it takes of this process."""

    @property
    def fault(self) -> str:
        """Return why it is no spec of a job, and the cure; empty if it may be one."""
        cure = "keep scripts and data in a ConfigMap or in the image"
        if self.values > JOB_VALUES:
            return f"has more than {JOB_VALUES} fields and items; {cure}"
        return f"has more than {JOB_BYTES >> 10} KiB of text; {cure}" if self.bytes > JOB_BYTES else ""


def size_of(value: Any, *, most_values: int = JOB_VALUES, most_bytes: int = JOB_BYTES) -> Size:
    """Return the size; of what has more than that only as much is counted as shows it."""
    texts, memory, values = 0, sys.getsizeof(value), 0
    names: set[int] = set()
    waiting = [value]
    while waiting and values <= most_values and texts <= most_bytes:
        each = waiting.pop()
        if isinstance(each, dict):
            texts += sum(map(_length, each))
            new = [name for name in each if id(name) not in names]  # the parser of JSON has each name once
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
