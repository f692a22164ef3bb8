"""One shared directory and the directory of one job in it."""

from pathlib import Path

import pytest

from elasticjob_agent.keep.persist.job_dir import JobDir
from tests.integration.keep.persist.job_dirs import JOB


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    path = tmp_path / "shared"
    path.mkdir()
    return path


@pytest.fixture
def directory(shared: Path) -> JobDir:
    found = JobDir(shared, JOB)
    found.open()
    return found
