"""A power law is recovered from exact numbers, and distinguished from another in noisy ones."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.rendezvous.fits import power_law, straight_line

SIZES = (64.0, 256.0, 1000.0)


@given(st.floats(1e-6, 1e3), st.floats(0.0, 3.0))
def test_factor_and_exponent_are_found_again(factor: float, exponent: float) -> None:
    law = power_law([(size, factor * size**exponent) for size in SIZES])
    assert law.factor == pytest.approx(factor)
    assert law.exponent == pytest.approx(exponent, abs=1e-9)


def test_a_cost_that_is_half_a_tenth_off_is_still_told_from_a_quadratic_one() -> None:
    law = power_law([(size, cost) for size, cost in zip(SIZES, (0.064 * 1.05, 0.256 * 0.95, 1.0), strict=True)])
    assert law.exponent == pytest.approx(1.0, abs=0.05)


def test_a_law_says_the_cost_of_a_size_that_was_never_measured() -> None:
    assert power_law([(1.0, 2.0), (10.0, 20.0)]).at(10_000) == pytest.approx(20_000)


def test_what_is_read_once_is_told_from_what_is_read_of_every_other_node() -> None:
    line = straight_line([(size, 700 + 150 * size) for size in SIZES])
    assert line.base == pytest.approx(700)
    assert line.at(10_000) == pytest.approx(700 + 1_500_000)
