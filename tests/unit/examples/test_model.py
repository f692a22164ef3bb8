"""The example's classifier: its gradient is right, and sums of shards are the sum of the whole."""

import numpy as np
import pytest
from data import load_digits
from model import Model, descend

MODEL = Model(hidden=4)
DIGITS = load_digits(0)


def test_the_gradient_is_that_of_the_loss() -> None:
    parameters = MODEL.initial(1)
    x, y = DIGITS.x[:7], DIGITS.y[:7]
    gradient = MODEL.sums(parameters, x, y)[:-2]
    for index in (0, 130, 259, 260, 300, MODEL.size - 1):
        nudge = np.zeros(MODEL.size)
        nudge[index] = 1e-6
        higher, lower = (MODEL.sums(parameters + sign * nudge, x, y)[-2] for sign in (1, -1))
        assert gradient[index] == pytest.approx((higher - lower) / 2e-6, abs=1e-6)


def test_sums_of_shards_add_up_to_the_sum_of_the_batch() -> None:
    parameters = MODEL.initial(1)
    whole = MODEL.sums(parameters, DIGITS.x[:10], DIGITS.y[:10])
    shards = sum(MODEL.sums(parameters, DIGITS.x[rank:10:3], DIGITS.y[rank:10:3]) for rank in range(3))
    assert np.allclose(whole, shards, atol=1e-12, rtol=0)


def test_an_empty_shard_adds_nothing() -> None:
    assert not MODEL.sums(MODEL.initial(1), DIGITS.x[:0], DIGITS.y[:0]).any()


def test_the_seed_alone_decides_the_first_parameters() -> None:
    assert np.array_equal(MODEL.initial(1), MODEL.initial(1))
    assert not np.array_equal(MODEL.initial(1), MODEL.initial(2))


def test_a_step_goes_down() -> None:
    parameters = MODEL.initial(1)
    before = MODEL.sums(parameters, DIGITS.x, DIGITS.y)
    after = MODEL.sums(descend(parameters, before[:-2], rate=0.1, samples=len(DIGITS.y)), DIGITS.x, DIGITS.y)
    assert after[-2] < before[-2]
