"""How many keys the next page of a list has: about two megabytes, whatever a key holds."""

import pytest

from elasticjob_etcd.client import next_limit

MIB = 1 << 20


@pytest.mark.parametrize(
    ("limit", "size", "following"),
    [
        (64, 1000, 128),
        (4096, 1000, 4096),
        (100, 3 * MIB // 2, 100),
        (64, 64 * MIB, 2),
        (2, 90 * MIB, 1),
    ],
)
def test_the_next_page_is_larger_or_smaller(limit: int, size: int, following: int) -> None:
    assert next_limit(limit, size) == following
