"""A module of a user's that reads its rank as it is imported."""

import os

RANK = os.environ["RANK"]
