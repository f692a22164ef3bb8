"""A module of a user that reads its rank during the import."""

import os

RANK = os.environ["RANK"]
