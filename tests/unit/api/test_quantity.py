"""Kubernetes quantities as numbers."""

from decimal import Decimal

import pytest

from elasticjob_api.quantity import bytes_of, in_units_of, parse_quantity


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("500m", "0.5"),
        ("2", "2"),
        ("1Gi", "1073741824"),
        ("1e3", "1000"),
        ("3k", "3000"),
        (".5", "0.5"),
        ("1E", "1e18"),
    ],
)
def test_quantities_are_read_as_kubernetes_reads_them(text: str, value: str) -> None:
    assert parse_quantity(text) == Decimal(value)


@pytest.mark.parametrize("text", ["", "many", "1 Gi", "1GiB", "1x", "1e99999999999999999999"])
def test_text_that_is_not_a_quantity_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a quantity"):
        parse_quantity(text)


def test_parts_of_a_unit_count_as_one() -> None:
    assert in_units_of(Decimal("1.2"), Decimal(1)) == 2


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("1Gi", 1 << 30),
        (0, 0),
        ("0", 0),
        ("100m", 1),
        ("1.5Ki", 1536),
        ("8Ei", (1 << 63) - 1),
        ("1e999999", (1 << 63) - 1),
    ],
)
def test_bytes_are_whole_and_have_63_bits(text: str | int, count: int) -> None:
    assert bytes_of(text) == count
