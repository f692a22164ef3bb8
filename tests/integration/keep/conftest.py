"""Directories in memory for the tests of Keep."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

MEMORY = "/dev/shm"


def memory() -> str | None:
    """Return a directory in memory, None where it cannot be written."""
    return MEMORY if os.access(MEMORY, os.W_OK) else None


@pytest.fixture
def keep_dir() -> Iterator[Path]:
    """Return the path of a volume that does not exist yet, in memory where that is allowed."""
    above = Path(tempfile.mkdtemp(prefix="keep-", dir=memory()))
    yield above / "volume"
    shutil.rmtree(above, ignore_errors=True)
