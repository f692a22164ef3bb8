"""The example's data: a fixed split, and an order that depends on seed and epoch alone."""

import numpy as np
from data import load_digits, schedule, steps_per_epoch


def test_the_whole_data_set_is_split_without_overlap() -> None:
    digits = load_digits(0)
    assert (len(digits.x), len(digits.x_test)) == (1438, 359)
    assert digits.x.shape[1] == 64
    assert (digits.x.min(), digits.x.max()) == (0.0, 1.0)
    assert set(digits.y) == set(digits.y_test) == set(range(10))


def test_the_file_is_the_one_that_scikit_learn_reads() -> None:
    digits = load_digits(0)
    rows = np.vstack([digits.x, digits.x_test])
    # The well-known first image of the set, a zero.
    assert (rows[:, :8] * 16 == [0, 0, 5, 13, 9, 1, 0, 0]).all(axis=1).any()
    assert len(rows) == 1797


def test_the_split_is_a_function_of_the_seed() -> None:
    assert np.array_equal(load_digits(3).x_test, load_digits(3).x_test)
    assert not np.array_equal(load_digits(3).x_test, load_digits(4).x_test)


def test_an_epoch_sees_every_sample_once() -> None:
    batches = schedule(100, 30, seed=0, epoch=2)
    assert [len(batch) for batch in batches] == [30, 30, 30, 10]
    assert sorted(np.concatenate(batches)) == list(range(100))
    assert steps_per_epoch(100, 30) == 4


def test_epochs_and_seeds_differ_and_repeat_exactly() -> None:
    first = np.concatenate(schedule(100, 30, seed=0, epoch=1))
    assert np.array_equal(first, np.concatenate(schedule(100, 30, seed=0, epoch=1)))
    assert not np.array_equal(first, np.concatenate(schedule(100, 30, seed=0, epoch=2)))
    assert not np.array_equal(first, np.concatenate(schedule(100, 30, seed=1, epoch=1)))
