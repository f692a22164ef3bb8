"""Lets these tests import the example's modules as its own `train.py` does: from its folder."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3] / "examples" / "digits"))
