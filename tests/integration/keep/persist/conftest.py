"""One shared directory and the directory of one job in it."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from elasticjob_agent.keep.persist.job_dir import JobDir
from tests.integration.keep.conftest import memory
from tests.integration.keep.persist.job_dirs import JOB


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    path = tmp_path / "shared"
    path.mkdir()
    return path


@pytest.fixture
def shared_in_memory() -> Iterator[Path]:
    """A shared directory for hundreds of steps: a disk would sync them for a minute and a half."""
    with tempfile.TemporaryDirectory(dir=memory(), prefix="ejo-shared-") as folder:
        yield Path(folder)


@pytest.fixture
def directory(shared: Path) -> JobDir:
    found = JobDir(shared, JOB)
    found.open()
    return found
