"""A training with exact arithmetic: its parameters after a step are the same at any number of workers.

The parameters are whole numbers, so their sums are exact. `trained` computes them in one process. A test compares them
with those that workers have restored and trained.
"""

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

SAMPLES = 12
_MODULUS = 1_048_573
_SIZE = 1 << 17

Vector = np.ndarray[Any, np.dtype[np.float64]]
Segment = tuple[int, int, int]
"""A round, and its first and last steps."""


SHARDED, ALONE = "sharded", "alone"
"""Each rank publishes its shard; or each trains without the others, and publishes the whole state."""


class State(NamedTuple):
    """All that is kept."""

    step: int
    segments: tuple[Segment, ...]
    parameters: Vector

    def digest(self) -> str:
        """Return a hash of step and parameters."""
        return hashlib.sha256(self.step.to_bytes(8, "big") + self.parameters.tobytes()).hexdigest()[:16]


def first_state() -> State:
    """Return the state before the first step."""
    return State(0, (), np.arange(_SIZE, dtype=np.float64) * 7919 % _MODULUS)


def trained(steps: int) -> State:
    """Return the state after so many undisturbed steps."""
    state = first_state()
    while state.step < steps:
        state = State(state.step + 1, (), descend(state, gradient(state, range(SAMPLES))))
    return state


def gradient(state: State, samples: Iterable[int]) -> Vector:
    """Return the sum of the gradients of these samples."""
    total = np.zeros(_SIZE)
    for sample in samples:
        total += (state.parameters * (sample + 2) + state.step * 31 + sample) % _MODULUS
    return total


def descend(state: State, summed: Vector) -> Vector:
    """Return the next parameters."""
    return (state.parameters + summed) % _MODULUS


def write(state: State, folder: Path, *, part: int, parts: int) -> None:
    """Write one part of the state into a folder."""
    shard = np.array_split(state.parameters, parts)[part]
    (folder / f"shard-{part}").write_bytes(shard.tobytes())
    (folder / f"journal-{part}").write_text(json.dumps({"step": state.step, "segments": state.segments}))


def read(folder: Path, step: int) -> State:
    """Return the state of this step; all parts must be here, and be of the same step."""
    journals = [(folder / f"journal-{index}").read_text() for index in range(len([*folder.glob("journal-*")]))]
    [journal] = set(journals)
    found = json.loads(journal)
    assert found["step"] == step, f"the files are of step {found['step']}, and not of {step}"
    parameters = b"".join((folder / f"shard-{index}").read_bytes() for index in range(len(journals)))
    assert len(parameters) == _SIZE * 8, f"{len(parameters)} bytes of parameters"
    segments = tuple((int(round_), int(first), int(last)) for round_, first, last in found["segments"])
    return State(found["step"], segments, np.frombuffer(parameters))
