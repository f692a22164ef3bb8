"""Jobs with agents of an older version beside those of now: training goes on, and no wrong step is restored.

The older versions are taken from the history of this repository, which must therefore be present.
"""

import os
import subprocess
from pathlib import Path

import pytest

from tests.integration.keep_jobs.conftest import MakeTraining

_ROOT = Path(__file__).resolve().parents[3]
_WITHOUT_KEEP = "59ab0347"
_FIRST_KEEP = "d4e5ffcf"


def old_agent(folder: Path, commit: str) -> dict[str, str]:
    """Write the agent of a commit into this folder; return the variables with which it runs."""
    folder.mkdir()
    archive = ["git", "-C", str(_ROOT), "archive", commit, "agent", "api", "etcd"]
    files = subprocess.run(archive, check=True, capture_output=True).stdout
    subprocess.run(["tar", "-x", "-C", str(folder)], input=files, check=True)
    return {"PYTHONPATH": os.pathsep.join(str(folder / each) for each in ("agent", "api", "etcd"))}


@pytest.mark.parametrize("leads", ["the old one", "the new one"])
def test_beside_an_agent_that_keeps_nothing_the_training_goes_on_and_restores_nothing(
    training: MakeTraining, tmp_path: Path, leads: str
) -> None:
    fleet = training("2", 1)
    present, old = dict(fleet.environment), old_agent(tmp_path / "old", _WITHOUT_KEEP)

    def start_old() -> None:
        fleet.environment, fleet.has_volume = {**present, **old}, False
        fleet.run_training()
        fleet.environment, fleet.has_volume = present, True

    if leads == "the old one":
        start_old()
    fleet.run_training()
    if leads == "the new one":
        start_old()
    fleet.await_round(1, 2)
    fleet.train_to(3, 1, 2)
    fleet.kill_worker(1, 0)
    fleet.await_round(2, 2)
    assert fleet.restored(2) == {None}
    fleet.train_to(4, 2, 2)
    assert fleet.finish_all() == [0, 0]


def test_a_step_is_copied_and_restored_between_agents_of_two_versions_that_keep_steps(
    training: MakeTraining, tmp_path: Path
) -> None:
    fleet = training("2", 1)
    present = dict(fleet.environment)
    fleet.run_training()
    fleet.environment = {**present, **old_agent(tmp_path / "old", _FIRST_KEEP)}
    fleet.run_training()
    fleet.await_round(1, 2)
    fleet.train_to(1, 1, 2)
    fleet.train_to(2, 1, 2)
    fleet.await_committed(2, 0, 1)
    fleet.kill_worker(1, 0)
    fleet.await_round(2, 2)
    assert fleet.restored(2) == {2}
    assert fleet.finish_all() == [0, 0]
