"""The part of the warm start that runs in the user's own Python: the standard library of Python 3.8 only."""
