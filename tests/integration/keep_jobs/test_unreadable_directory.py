"""Jobs whose shared directory cannot be read at first: training waits, visibly, and begins below no step."""

from pathlib import Path

import pytest

from elasticjob_agent.node.keep_dir import claim_keep_dir
from elasticjob_api.keys import cli_prefix
from testing.waiting import eventually
from tests.integration.keep_jobs.conftest import MakeTraining
from tests.integration.keep_jobs.training_fleet import TrainingFleet


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    """A directory on disk that all agents of a job use."""
    path = tmp_path / "shared"
    path.mkdir()
    return path


def run_until_step(training: MakeTraining, shared: Path, step: int) -> TrainingFleet:
    """Return an ended job that has left this step in the directory."""
    first = training("1", 1, persist_to=shared, persist_every_s=3600)
    first.begin(1)
    first.train_to(step, 1, 1)
    assert first.finish_all() == [0]
    assert first.whole_steps() == [step]
    return first


def await_waiting(fleet: TrainingFleet, nodes: int, why: str) -> None:
    """Wait until so many nodes report that they wait for the directory, and why."""

    def are_waiting() -> bool:
        waiting = [report for report in fleet.reports() if report is not None and report.is_waiting]
        return len(waiting) == nodes and all(why in report.persist_error for report in waiting)

    eventually(are_waiting, within_s=40, what=f"{nodes} nodes wait for the directory", pause_s=0.1)


def await_no_error(fleet: TrainingFleet) -> None:
    """Wait until no node reports an error of the directory."""

    def are_well() -> bool:
        return all(report is not None and not report.persist_error for report in fleet.reports())

    eventually(are_well, within_s=40, what="no node has an error", pause_s=0.1)


def test_a_job_waits_for_its_directory_and_begins_with_the_newest_step(training: MakeTraining, shared: Path) -> None:
    first = run_until_step(training, shared, 5)
    away = shared.rename(shared.with_name("away"))
    again = training("2", 1, persist_to=shared, run_id=first.run_id)
    for _ in range(2):
        again.run_training()
    await_waiting(again, 2, "this node waits until keep.persistTo can be listed: cannot use ")
    log = again.log_of(0).read_text()
    assert log.count("No such file or directory; keep.persistTo needs a volume of all nodes") >= 1, log
    assert log.count("or remove keep.persistTo (--keep-persist-to) while the job is suspended") == 1, log
    assert again.rounds() == set()
    away.rename(shared)
    again.await_round(1, 2)
    assert again.restored(1) == {5}
    await_no_error(again)
    assert again.finish_all() == [0, 0]


def test_a_round_waits_for_the_one_node_that_cannot_read_a_step_that_the_other_one_sees(
    training: MakeTraining, shared: Path
) -> None:
    first = run_until_step(training, shared, 5)
    late = shared.with_name("late")
    again = training("2", 1, persist_to=late, run_id=first.run_id)
    again.run_training()
    await_waiting(again, 1, "No such file or directory")
    again.persist_to = shared
    again.run_training()
    await_waiting(again, 1, "No such file or directory")
    assert again.rounds() == set()
    late.symlink_to(shared)
    again.await_round(1, 2)
    assert again.restored(1) == {5}
    assert again.finish_all() == [0, 0]


def test_a_new_job_that_may_resume_waits_for_its_directory_too(training: MakeTraining, tmp_path: Path) -> None:
    shared = tmp_path / "late"
    fleet = training("1", 1, persist_to=shared)
    fleet.run_training()
    await_waiting(fleet, 1, "No such file or directory")
    assert fleet.rounds() == set()
    shared.mkdir()
    fleet.await_round(1, 1)
    assert fleet.restored(1) == {None}
    assert fleet.finish_all() == [0]


def test_a_lost_node_is_replaced_while_the_directory_is_away_because_memory_has_the_newest_step(
    training: MakeTraining, shared: Path
) -> None:
    fleet = training("2", 1, persist_to=shared)
    fleet.begin(2)
    fleet.train_to(3, 1, 2)
    fleet.await_committed(3, 0, 1)
    shared.rename(shared.with_name("away"))
    fleet.kill_agent(1, with_memory=True)
    fleet.run_training()
    fleet.await_round(2, 2)
    assert fleet.restored(2) == {3}
    assert [report.is_waiting for report in fleet.reports() if report is not None] == [False, False]
    fleet.finish()
    fleet.kill_all()


def test_a_job_whose_nodes_cannot_use_their_memory_begins_below_no_step(
    training: MakeTraining, shared: Path, keep_dir: Path
) -> None:
    first = run_until_step(training, shared, 5)
    again = training("2", 1, persist_to=shared, run_id=first.run_id, has_volume=False)
    claimed = [claim_keep_dir(keep_dir, cli_prefix(first.run_id), slot=None) for _ in range(2)]
    for each in claimed:
        each.volume.touch()
        each.close()
    for _ in range(2):
        again.run_training()
    await_waiting(again, 2, "Not a directory")
    assert again.rounds() == set()
    for each in claimed:
        each.volume.unlink()
    again.await_round(1, 2)
    assert again.restored(1) == {5}
    assert again.finish_all() == [0, 0]


def test_a_node_that_was_started_without_the_directory_gives_no_step_up(training: MakeTraining, shared: Path) -> None:
    first = run_until_step(training, shared, 5)
    again = training("2", 1, run_id=first.run_id)
    again.run_training()
    again.persist_to = shared
    again.run_training()
    await_waiting(again, 1, "it has no keep.persistTo, and step 5 is there; delete its pod, or start its agent")
    assert again.state().restore.endswith(".5.1")
    again.kill_agent(0, with_memory=True)
    again.run_training()
    round_ = again.await_world(2)
    assert again.restored(round_) == {5}
    assert again.finish_all()[1:] == [0, 0]
