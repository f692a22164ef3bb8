"""After the death of a worker, an agent, a keeper or a node, the newest step that all workers published is restored."""

import signal
from pathlib import Path

from elasticjob_api.exit_codes import ExitCode
from testing.waiting import eventually
from tests.integration.keep_jobs.conftest import MakeTraining


def test_after_a_workers_death_the_newest_step_that_all_published_is_restored(training: MakeTraining) -> None:
    fleet = training("1", 2)
    fleet.begin(1)
    assert fleet.restored(1) == {None}
    fleet.train_to(7, 1, 2)
    fleet.kill_worker(1, 1)
    fleet.await_round(2, 2)
    assert fleet.restored(2) == {7}
    fleet.train_to(9, 2, 2)
    fleet.kill_worker(2, 0)
    fleet.await_round(3, 2)
    assert fleet.restored(3) == {9}
    assert {point["steps"] for point in fleet.running(3)} == {9}  # none was done twice
    assert fleet.finish_all() == [0]


def test_each_of_two_nodes_fetches_what_the_other_has(training: MakeTraining) -> None:
    fleet = training("2", 1, copies=0)
    fleet.begin(2)
    fleet.train_to(3, 1, 2)
    fleet.kill_worker(1, 0)
    fleet.await_round(2, 2)
    assert fleet.restored(2) == {3}
    assert fleet.finish_all() == [0, 0]


def test_the_replacement_of_a_lost_node_fetches_the_copies_of_its_parts(training: MakeTraining) -> None:
    fleet = training("2", 1)
    fleet.begin(2)
    fleet.train_to(4, 1, 2)
    fleet.await_held(0, 4, 2)
    fleet.kill_agent(1, with_memory=True)
    fleet.run_training()
    fleet.await_round(2, 2)
    assert fleet.restored(2) == {4}
    fleet.train_to(6, 2, 2)
    fleet.kill_worker(2, 0)
    fleet.await_round(3, 2)
    assert fleet.restored(3) == {6}


def test_a_node_that_cannot_restore_yet_reports_the_step_before_its_first_round(training: MakeTraining) -> None:
    fleet = training("2", 1, conf="keep_alive=20,last_call_timeout=1")
    fleet.begin(2)
    fleet.train_to(4, 1, 2)
    fleet.await_held(0, 4, 2)
    fleet.agents[0].send_signal(signal.SIGSTOP)  # so there is no round before the new node has lost its keeper
    fleet.kill_agent(1, with_memory=True)
    fleet.run_training()
    volume = fleet.volumes[2]
    away = volume.rename(volume.with_name("away"))
    volume.touch()
    fleet.keeper(2).kill()
    fleet.agents[0].send_signal(signal.SIGCONT)
    eventually(lambda: 4 in [report.restoring for report in fleet.reports() if report is not None], within_s=40)
    volume.unlink()
    away.rename(volume)
    fleet.await_round(2, 2)
    assert fleet.restored(2) == {4}
    eventually(lambda: {report.restoring for report in fleet.reports() if report is not None} == {None}, within_s=40)


def test_a_step_that_is_lost_with_its_node_is_restored_by_none(training: MakeTraining) -> None:
    fleet = training("2", 1, copies=0)
    fleet.begin(2)
    fleet.train_to(4, 1, 2)
    fleet.kill_agent(1, with_memory=True)
    fleet.run_training()
    fleet.await_round(2, 2)
    assert fleet.restored(2) == {None}


def test_an_agent_that_is_started_again_goes_on_with_the_volume_of_the_killed_one(training: MakeTraining) -> None:
    fleet = training("1", 1)
    fleet.begin(1)
    fleet.train_to(5, 1, 1)
    fleet.await_held(0, 5, 1)
    fleet.kill_agent(0, with_memory=False)
    fleet.run_training()
    assert fleet.volumes[1] == fleet.volumes[0]
    fleet.await_round(2, 1)
    assert fleet.restored(2) == {5}


def test_another_keeper_goes_on_for_a_killed_one(training: MakeTraining) -> None:
    fleet = training("1", 1)
    fleet.begin(1)
    fleet.train_to(2, 1, 1)
    first = fleet.keeper(0)
    first.kill()
    eventually(lambda: not first.is_running(), what="the end of the keeper")
    fleet.train_to(5, 1, 1)
    fleet.await_held(0, 5, 1)
    fleet.kill_worker(1, 0)
    fleet.await_round(2, 1)
    assert fleet.restored(2) == {5}


def test_a_training_goes_on_through_two_three_and_one_nodes(training: MakeTraining) -> None:
    fleet = training("1:3", 1)
    fleet.run_training()
    fleet.run_training()
    two = fleet.await_world(2)
    fleet.train_to(3, two, 2)
    fleet.run_training()
    three = fleet.await_world(3)
    assert fleet.restored(three) == {3}
    fleet.train_to(5, three, 3)
    fleet.leave(1)
    fleet.leave(2)
    one = fleet.await_world(1)
    assert fleet.restored(one) == {5}
    fleet.train_to(6, one, 1)
    assert fleet.finish_all()[0] == 0


def test_every_node_reports_the_step_that_survives_a_loss(training: MakeTraining) -> None:
    fleet = training("2", 1)
    fleet.begin(2)
    fleet.train_to(3, 1, 2)

    def are_committed() -> bool:
        reports = [report for report in fleet.reports() if report is not None and report.step is not None]
        return [(report.round, report.copies, report.degraded) for report in reports] == [(1, 1, "")] * 2

    eventually(are_committed, within_s=40, what="both nodes report a step with a copy", pause_s=0.1)
    report = fleet.reports()[0]
    assert report is not None
    assert (report.size_limit_bytes, report.held_bytes > 0) == (16 << 20, True)


def test_a_node_that_leaves_alone_gives_its_memory_up(training: MakeTraining, keep_dir: Path) -> None:
    fleet = training("1", 1)
    fleet.begin(1)
    fleet.train_to(2, 1, 1)
    fleet.leave(0)
    assert fleet.agents[0].wait(40) == 143
    assert [*keep_dir.iterdir()] == []


def test_the_end_of_the_job_gives_all_memory_up(training: MakeTraining, keep_dir: Path) -> None:
    fleet = training("2", 1)
    fleet.begin(2)
    fleet.train_to(2, 1, 2)
    assert fleet.finish_all() == [0, 0]
    assert [*keep_dir.iterdir()] == []


def test_without_the_options_no_worker_is_told_of_a_directory_and_none_is_made(
    training: MakeTraining, keep_dir: Path
) -> None:
    fleet = training("1", 1, keep_dir=None)
    fleet.begin(1)
    fleet.train_to(2, 1, 1)
    fleet.kill_worker(1, 0)
    fleet.await_round(2, 1)
    assert [point["keeps"] for point in fleet.points() if point["point"] == "running"] == [False, False]
    assert fleet.restored(2) == {None}
    assert [*keep_dir.iterdir()] == []


def test_without_a_usable_directory_no_agent_joins_a_job_that_may_have_steps_on_disk(
    training: MakeTraining, tmp_path: Path
) -> None:
    fleet = training("1", 1, keep_dir=tmp_path / "missing", persist_to=tmp_path, has_volume=False)
    fleet.run_training()
    assert fleet.await_ends(40) == [ExitCode.USAGE]
    assert f"--keep-dir {tmp_path / 'missing'}: cannot use" in fleet.log_of(0).read_text()


def test_without_a_usable_directory_the_training_runs_and_the_agent_reports_it_once(
    training: MakeTraining, tmp_path: Path
) -> None:
    fleet = training("1", 1, keep_dir=tmp_path / "missing", has_volume=False)
    fleet.begin(1)
    fleet.train_to(2, 1, 1)
    fleet.kill_worker(1, 0)
    fleet.await_round(2, 1)
    assert fleet.restored(2) == {None}
    assert fleet.finish_all() == [0]
    assert fleet.log_of(0).read_text().count("this node keeps no steps") == 1
