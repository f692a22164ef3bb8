"""Directories in memory for the tests of Keep."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import suppress
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


@pytest.fixture(autouse=True)
def closes_inotify() -> Iterator[None]:
    """Fail if a test leaves an instance of inotify open: a user has few of them, for all tests at a time."""
    before = inotify_instances()
    yield
    assert inotify_instances() <= before, "close the StepKeeper or InotifyWatch of this test"


def inotify_instances() -> set[str]:
    """Return the descriptors of this process that are instances of inotify."""
    found = set()
    for entry in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):
            if str(entry.readlink()) == "anon_inode:inotify":
                found.add(entry.name)
    return found
