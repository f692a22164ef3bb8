"""A classifier with one hidden layer, in NumPy, over one flat vector of parameters.

Flat, because then an all-reduce, a hash and a checkpoint each take one array. Gradients are sums over
samples, not means: the sums of shards add up to the sum of the whole batch, whatever the shards are.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from data import CLASSES, PIXELS, Labels, Matrix

Vector = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Model:
    """64 pixels → `hidden` tanh units → 10 classes, softmax and cross-entropy."""

    hidden: int

    @property
    def size(self) -> int:
        """Return the number of parameters."""
        return (PIXELS + 1) * self.hidden + (self.hidden + 1) * CLASSES

    def initial(self, seed: int) -> Vector:
        """Return the initial parameters: small random weights, drawn from `seed`."""
        return np.random.default_rng([seed, self.hidden]).normal(scale=0.1, size=self.size)

    def sums(self, parameters: Vector, x: Matrix, y: Labels) -> Vector:
        """Return, over these samples: the gradient's sum, the loss' sum, and the number of correct answers."""
        weights, head = self._layers(parameters)
        inner = _with_ones(np.tanh(_with_ones(x) @ weights))
        scores = inner @ head
        scores -= scores.max(axis=1, keepdims=True, initial=-np.inf)
        odds = np.exp(scores)
        odds /= odds.sum(axis=1, keepdims=True)
        own = np.arange(len(y)), y
        loss = -np.log(odds[own]).sum()
        right = np.count_nonzero(odds.argmax(axis=1) == y)
        odds[own] -= 1.0
        through = (odds @ head[:-1].T) * (1.0 - inner[:, :-1] ** 2)
        return np.concatenate([(_with_ones(x).T @ through).ravel(), (inner.T @ odds).ravel(), [loss, right]])

    def accuracy(self, parameters: Vector, x: Matrix, y: Labels) -> float:
        """Return the share of these samples that is classified correctly, between 0 and 1."""
        return float(self.sums(parameters, x, y)[-1] / len(y))

    def _layers(self, parameters: Vector) -> tuple[Matrix, Matrix]:
        cut = (PIXELS + 1) * self.hidden
        return parameters[:cut].reshape(PIXELS + 1, self.hidden), parameters[cut:].reshape(self.hidden + 1, CLASSES)


def descend(parameters: Vector, gradient_sum: Vector, *, rate: float, samples: int) -> Vector:
    """Return the parameters after one step of gradient descent.

    Only elementwise products and differences: equal inputs give equal bits on every kind of CPU. So the
    ranks' parameters remain equal although they are never sent.
    """
    return parameters - gradient_sum * (rate / samples)


def _with_ones(x: Matrix) -> Matrix:
    """Append the constant column that makes a layer's last row its bias."""
    return np.hstack([x, np.ones((len(x), 1))])
