"""The digits data set, its split, and the order in which training sees it.

The schedule is a pure function of seed and epoch and does not depend on ranks. So the result is independent of the
number of workers and of their restarts.
"""

import gzip
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import numpy.typing as npt

Matrix = npt.NDArray[np.float64]
Labels = npt.NDArray[np.int64]

CLASSES = 10
PIXELS = 64
TEST_SHARE = 0.2


@dataclass(frozen=True, slots=True)
class Digits:
    """Images as rows of 64 values between 0 and 1, labels 0-9; split in training and test."""

    x: Matrix
    y: Labels
    x_test: Matrix
    y_test: Labels


def load_digits(seed: int) -> Digits:
    """Read the data set that scikit-learn ships and split it by `seed`."""
    table = _read_table()
    table = table[np.random.default_rng(seed).permutation(len(table))]
    x, y = table[:, :PIXELS] / 16.0, table[:, PIXELS].astype(np.int64)
    held_out = int(len(table) * TEST_SHARE)
    return Digits(x=x[held_out:], y=y[held_out:], x_test=x[:held_out], y_test=y[:held_out])


def _read_table() -> Matrix:
    # The file that sklearn.datasets.load_digits() reads. Importing sklearn for it would cost each worker
    # 0.7 s of CPU at every restart; reading it takes some milliseconds.
    package = find_spec("sklearn")
    if package is None or package.origin is None:
        message = "scikit-learn is not installed; it ships the digits data set (pip install scikit-learn)"
        raise ModuleNotFoundError(message)
    with gzip.open(Path(package.origin).parent / "datasets" / "data" / "digits.csv.gz", "rt") as file:
        return np.loadtxt(file, delimiter=",")


def steps_per_epoch(samples: int, batch: int) -> int:
    """Return the number of global batches of one pass over the data; the last one may be smaller."""
    return -(-samples // batch)


def schedule(samples: int, batch: int, *, seed: int, epoch: int) -> list[Labels]:
    """Return the global batches of one epoch, each as indices of samples."""
    order = np.random.default_rng([seed, epoch]).permutation(samples)
    return [order[start : start + batch] for start in range(0, samples, batch)]
