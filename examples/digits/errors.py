"""What can go wrong in this job, as one tree. `train.py` turns each into one line and exit code 1.

DigitsError
├── JoinError         the ranks did not find each other
├── PeerLostError     a rank went away in the middle
├── CheckpointError   a file that is no checkpoint of this run
└── ProofError        something that this example promises did not hold
"""


class DigitsError(Exception):
    """Base of all errors that stop a worker with one line instead of a traceback."""


class JoinError(DigitsError):
    """The ranks of a round did not find each other; the message says who was missing where."""


class PeerLostError(DigitsError):
    """The connection to another rank broke; the message names the rank and the reason."""


class CheckpointError(DigitsError):
    """A file is torn, altered, or not a checkpoint that this run can use."""


class ProofError(DigitsError):
    """A promise of the example did not hold; the message names it and the ranks concerned."""
