"""The errors of this job, as one tree. `train.py` turns each into one line and exit code 1.

    DigitsError
    ├── JoinError         the ranks did not find each other
    ├── PeerLostError     the connection to a rank broke
    ├── CheckpointError   a file that is no checkpoint of this run
    └── ProofError        a promise of this example was broken

Each message is for the user of the example.
"""


class DigitsError(Exception):
    """Base of all errors that stop a worker with one line instead of a traceback."""


class JoinError(DigitsError):
    """The ranks of a round did not find each other; the message names the missing ranks and the address."""


class PeerLostError(DigitsError):
    """The connection to another rank broke; the message names the rank and the reason."""


class CheckpointError(DigitsError):
    """A file is torn, altered, or not a checkpoint that this run can use."""


class ProofError(DigitsError):
    """A promise of the example did not hold; the message names it and the ranks concerned."""
