"""The memory that a zygote may take, and when it must end."""

import pytest

from elasticjob_agent.host.memory import MemoryUsage
from elasticjob_agent.warm_start.memory_policy import (
    limit_of_zygote,
    refuse_build,
    refuse_size,
    refuse_waiting,
    size,
)

MIB, GIB = 1 << 20, 1 << 30


@pytest.mark.parametrize(
    ("total", "left", "limit"),
    [
        (2 * GIB, 1100 * MIB, 498 * MIB),  # half of what is above the reserve of 5 %
        (2 * GIB, 50 * MIB, 0),
        (512 * GIB, 101 * GIB, 50 * GIB),  # the reserve is at most 1 GiB
    ],
)
def test_a_zygote_may_take_half_of_what_is_left(total: int, left: int, limit: int) -> None:
    assert limit_of_zygote(MemoryUsage(total, left)) // MIB == limit // MIB


@pytest.mark.parametrize(
    ("memory", "expected", "reason"),
    [
        (MemoryUsage(2 * GIB, GIB), 0, ""),
        (MemoryUsage(2 * GIB, GIB), 400 * MIB, ""),
        (MemoryUsage(2 * GIB, GIB), 700 * MIB, "1.0 GiB of 2.0 GiB are left; the imports take 700 MiB"),
        (MemoryUsage(2 * GIB, 90 * MIB), 0, "memory is short: 90 MiB of 2.0 GiB are left"),
        (
            MemoryUsage(2 * GIB, 90 * MIB),
            400 * MIB,
            "memory is short: 90 MiB of 2.0 GiB are left; the imports take 400 MiB",
        ),
        (MemoryUsage(2 * GIB, 130 * MIB), 0, "memory is short: 130 MiB of 2.0 GiB are left"),
        (None, 0, "the memory that is left is not known: /proc/meminfo does not show it"),
    ],
)
def test_a_zygote_is_built_where_enough_memory_is_left(memory: MemoryUsage | None, expected: int, reason: str) -> None:
    assert refuse_build(memory, expected=expected) == reason


@pytest.mark.parametrize(
    ("memory", "reason"),
    [
        (MemoryUsage(2 * GIB, 103 * MIB), ""),
        (MemoryUsage(2 * GIB, 102 * MIB), "memory is short: 102 MiB of 2.0 GiB are left"),
        (MemoryUsage(512 * GIB, GIB), ""),
        (MemoryUsage(512 * GIB, GIB - 1), "memory is short: 1023 MiB of 512.0 GiB are left"),
        (None, "the memory that is left is not known: /proc/meminfo does not show it"),
    ],
)
def test_a_zygote_ends_when_memory_is_short(memory: MemoryUsage | None, reason: str) -> None:
    assert refuse_waiting(memory) == reason


def test_a_zygote_over_its_limit_is_refused() -> None:
    assert refuse_size(300 * MIB, 300 * MIB) == ""
    reason = "the imports take more than 300 MiB, which is half of the memory that was left"
    assert refuse_size(300 * MIB + 1, 300 * MIB) == reason


@pytest.mark.parametrize(("count", "text"), [(0, "0 MiB"), (GIB - 1, "1023 MiB"), (3 * GIB // 2, "1.5 GiB")])
def test_sizes_are_short(count: int, text: str) -> None:
    assert size(count) == text
