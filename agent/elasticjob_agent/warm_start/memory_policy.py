"""The memory that a zygote may take: each function returns the reason against it, or an empty text.

Everything that a job needs comes before a warm start. So the zygote must leave a reserve, and is ended when the reserve
is used. The kernel's own choice is not enough: under version 2 of cgroups, Kubernetes has it kill all processes of a
container together (`memory.oom.group`).
"""

from elasticjob_agent.host.memory import MemoryUsage

_RESERVE_SHARE = 0.05
_MAX_RESERVE = 1 << 30
_LEAST = 16 << 20
"""Bytes that an interpreter needs for a few imports."""
_EXCESS = 1.25
"""How much more room than last time there must be, after imports have taken more than their limit."""
_UNKNOWN = "the memory that is left is not known: /proc/meminfo does not show it"


def refuse_build(memory: MemoryUsage | None, *, expected: int) -> str:
    """Return the reason against building a zygote now; `expected` is what an earlier one took, 0 if there was none."""
    if memory is None:
        return _UNKNOWN
    if expected > limit_of_zygote(memory):
        return f"{refuse_waiting(memory) or _left(memory)}; the imports take {size(expected)}"
    return refuse_waiting(memory) or (_short(memory) if limit_of_zygote(memory) < _LEAST else "")


def expected_after_excess(limit: int) -> int:
    """Return the bytes to expect of imports that have taken more than `limit`."""
    return int(limit * _EXCESS)


def limit_of_zygote(memory: MemoryUsage) -> int:
    """Return the bytes that a zygote may take during its imports: half of what is left above the reserve."""
    return max(memory.left - _reserve(memory), 0) // 2


def refuse_size(taken: int, limit: int) -> str:
    """Return the reason against a zygote that takes this many bytes."""
    if taken <= limit:
        return ""
    return f"the imports take more than {size(limit)}, which is half of the memory that was left"


def refuse_waiting(memory: MemoryUsage | None) -> str:
    """Return the reason against a zygote that waits."""
    if memory is None:
        return _UNKNOWN
    return _short(memory) if memory.left < _reserve(memory) else ""


def size(count: int) -> str:
    """Return this number of bytes for people."""
    return f"{count / (1 << 30):.1f} GiB" if count >= 1 << 30 else f"{count >> 20} MiB"


def _short(memory: MemoryUsage) -> str:
    return f"memory is short: {_left(memory)}"


def _left(memory: MemoryUsage) -> str:
    return f"{size(memory.left)} of {size(memory.total)} are left"


def _reserve(memory: MemoryUsage) -> int:
    return min(int(memory.total * _RESERVE_SHARE), _MAX_RESERVE)
