"""Jobs whose nodes keep steps, with a real etcd."""

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from elasticjob_etcd.embedded import EmbeddedEtcd
from tests.integration.keep_jobs.training_fleet import TrainingFleet

MakeTraining = Callable[..., TrainingFleet]


@pytest.fixture
def keep_dir() -> Iterator[Path]:
    """A directory in memory, as users have it."""
    with tempfile.TemporaryDirectory(dir="/dev/shm", prefix="ejk-") as folder:
        yield Path(folder)


@pytest.fixture
def training(etcd_server: EmbeddedEtcd, tmp_path: Path, keep_dir: Path) -> Iterator[MakeTraining]:
    """Return `training(nnodes, nproc, **fields)`; all of its agents are killed at the end."""
    made: list[TrainingFleet] = []

    def make(nnodes: str, nproc: int, **fields: object) -> TrainingFleet:
        (endpoint,) = etcd_server.endpoint.targets
        fields.setdefault("keep_dir", keep_dir)
        folder = tmp_path / f"fleet{len(made)}"
        folder.mkdir()
        made.append(TrainingFleet(endpoint, folder, nnodes, nproc, **fields))  # type: ignore[arg-type]  # a table of fields
        return made[-1]

    yield make
    for fleet in made:
        fleet.kill_all()
