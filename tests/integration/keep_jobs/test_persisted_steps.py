"""Jobs that persist steps to a shared directory, after more losses than copies, and after the end of all nodes."""

import shutil
import signal
import time
from pathlib import Path

import pytest

from elasticjob_api import constants
from elasticjob_api.rendezvous_state import RoundPhase
from testing.waiting import eventually, scaled
from tests.integration.keep_jobs.conftest import MakeTraining
from tests.integration.keep_jobs.training_fleet import TrainingFleet


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    """A directory on disk that all agents of a job use."""
    path = tmp_path / "shared"
    path.mkdir()
    return path


def leave_all(fleet: TrainingFleet) -> None:
    """Let all nodes leave at once, and wait for their ends."""
    for number in range(len(fleet.agents)):
        fleet.leave(number)
    assert set(fleet.await_ends(60)) == {143}


def persist_step_5(training: MakeTraining, shared: Path) -> TrainingFleet:
    """Return a training of one node that has ended, and has written step 5 to disk at its end."""
    fleet = training("1", 1, persist_to=shared, persist_every_s=3600)
    fleet.begin(1)
    fleet.train_to(5, 1, 1)
    assert fleet.finish_all() == [0]
    return fleet


def test_after_the_loss_of_two_nodes_at_once_the_newest_persisted_step_is_restored(
    training: MakeTraining, shared: Path
) -> None:
    fleet = training("2", 1, persist_to=shared)
    fleet.begin(2)
    fleet.train_to(3, 1, 2)
    fleet.await_held(0, 3, 2)
    persisted = fleet.await_persisted(3)
    fleet.train_to(6, 1, 2)
    for agent in (0, 1):
        fleet.kill_agent(agent, with_memory=True)
    newest = max(fleet.whole_steps())
    for _ in range(2):
        fleet.run_training()
    fleet.await_round(2, 2)
    assert fleet.restored(2) == {newest}
    assert newest >= persisted
    fleet.train_to(8, 2, 2)
    fleet.kill_worker(2, 0)
    fleet.await_round(3, 2)
    assert fleet.restored(3) == {8}
    assert fleet.finish_all()[-2:] == [0, 0]


def test_a_node_that_was_idle_restores_what_the_others_persisted_meanwhile(
    training: MakeTraining, shared: Path
) -> None:
    fleet = training("1:2", 1, persist_to=shared, persist_every_s=1)
    for _ in range(2):
        fleet.run_training()
    round_ = fleet.await_world(2)
    fleet.train_to(1, round_, 2)
    oldest = fleet.await_persisted(1)
    fleet.run_training()
    eventually(lambda: "joined as slot 2" in fleet.log_of(2).read_text(), within_s=40, what="an idle node")
    newest = oldest
    while oldest in fleet.whole_steps():
        fleet.train_to(newest + 1, round_, 2)
        newest = fleet.await_persisted(newest + 1)
    for agent in (0, 1):
        fleet.agents[agent].send_signal(signal.SIGSTOP)  # none of them makes a round with the idle one
    for agent in (0, 1):
        fleet.kill_agent(agent, with_memory=True)
    fleet.await_round(round_ + 1, 1)
    assert fleet.restored(round_ + 1) == {newest}
    fleet.finish()
    assert fleet.await_ends(40)[2] == 0


def test_a_step_that_becomes_whole_on_disk_while_a_round_forms_is_restored(
    training: MakeTraining, shared: Path
) -> None:
    # Without a copy, the step in memory is lost with the other node. That one is stopped before, so the round waits.
    conf = f"keep_alive={scaled(20):g},last_call_timeout=1"
    fleet = training("1:2", 1, persist_to=shared, persist_every_s=1, copies=0, conf=conf)
    for _ in range(2):
        fleet.run_training()
    round_ = fleet.await_world(2)
    fleet.train_to(1, round_, 2)
    assert fleet.await_persisted(1) == 1
    writer = fleet.writer(1)
    writer.suspend()
    fleet.train_to(2, round_, 2)
    eventually(lambda: [*shared.glob("*/.unfinished/*.2.2/parts/*.json")], within_s=40, what="a part of agent 0")
    fleet.agents[0].send_signal(signal.SIGSTOP)
    fleet.kill_worker(round_, 1)
    fleet.await_ready(1)
    writer.resume()
    assert fleet.await_persisted(2) == 2
    assert fleet.state().phase is RoundPhase.FORMING, "the round has closed before"
    fleet.kill_agent(0, with_memory=True)
    assert fleet.restored(fleet.await_world(1)) == {2}


def test_when_all_nodes_leave_their_newest_step_is_persisted_and_the_next_run_begins_with_it(
    training: MakeTraining, shared: Path
) -> None:
    fleet = training("2", 1, persist_to=shared, persist_every_s=3600)
    fleet.begin(2)
    fleet.train_to(7, 1, 2)
    leave_all(fleet)
    assert fleet.whole_steps() == [7]
    again = training("2", 1, persist_to=shared, run_id=fleet.run_id)
    again.run_training()
    again.run_training()
    round_ = again.await_world(2)
    assert again.restored(round_) == {7}


def test_when_too_few_nodes_stay_for_a_round_those_that_leave_write_their_newest_step(
    training: MakeTraining, shared: Path
) -> None:
    fleet = training("2", 1, persist_to=shared, persist_every_s=3600)
    fleet.begin(2)
    fleet.train_to(7, 1, 2)
    fleet.await_committed(7, 0, 1)
    fleet.run_training()  # the job has two nodes at most, so this one stays without a round
    for agent in (0, 1):
        fleet.leave(agent)
    assert [fleet.agents[agent].wait(60) for agent in (0, 1)] == [143, 143]
    assert fleet.whole_steps() == [7]
    fleet.run_training()
    fleet.await_round(2, 2)
    assert fleet.restored(2) == {7}


@pytest.mark.parametrize("may_resume", [True, False])
def test_a_job_that_is_created_again_resumes_only_if_it_may(
    training: MakeTraining, shared: Path, *, may_resume: bool
) -> None:
    first = persist_step_5(training, shared)
    assert first.whole_steps() == [5]
    again = training("1", 1, persist_to=shared, run_id=first.run_id, may_resume=may_resume)
    again.begin(1)
    assert again.restored(1) == {5 if may_resume else None}
    again.train_to(6, 1, 1)
    assert again.finish_all() == [0]
    # Without an earlier step it trained from the beginning, up to the same number.
    assert again.whole_steps() == [5, 6]


def test_a_resumed_job_goes_on_from_its_step_though_etcd_has_lost_its_state_and_a_new_job_may_not(
    training: MakeTraining, shared: Path
) -> None:
    """A suspended job has no agent that writes its state into an empty etcd."""
    first = persist_step_5(training, shared)
    again = training("1", 1, persist_to=shared, run_id=first.run_id, may_resume=False)
    again.environment[constants.ENV_KEEP_PERSISTED] = "5"
    again.begin(1)
    assert again.restored(1) == {5}
    assert again.finish_all() == [0]


def test_without_the_newest_step_the_one_before_is_restored_though_an_earlier_run_wrote_it(
    training: MakeTraining, shared: Path
) -> None:
    run_id = ""
    for restored, last in ((None, 5), (5, 8)):
        run = training("1", 1, persist_to=shared, persist_every_s=3600, **({"run_id": run_id} if run_id else {}))
        run_id = run.run_id
        run.begin(1)
        assert run.restored(1) == {restored}
        run.train_to(last, 1, 1)
        assert run.finish_all() == [0]
    assert run.whole_steps() == [5, 8]
    (newest,) = shared.glob("*/step-8.*")
    (newest / "link").symlink_to("/etc/hostname")  # a step has files and directories only
    again = training("1", 1, persist_to=shared, run_id=run_id, restore_timeout_s=2.0)
    again.run_training()
    again.await_round(2, 1)
    assert again.restored(2) == {5}
    assert again.finish_all() == [0]


def test_another_job_with_the_same_directory_restores_nothing_of_it(training: MakeTraining, shared: Path) -> None:
    first = training("1", 1, persist_to=shared)
    first.begin(1)
    first.train_to(5, 1, 1)
    assert first.finish_all() == [0]
    other = training("1", 1, persist_to=shared)
    other.begin(1)
    assert other.restored(1) == {None}
    other.finish()


def test_the_end_of_a_job_without_the_option_leaves_nothing_on_disk(training: MakeTraining, shared: Path) -> None:
    fleet = training("2", 1)
    fleet.begin(2)
    fleet.train_to(2, 1, 2)
    assert fleet.finish_all() == [0, 0]
    assert [*shared.iterdir()] == []


def test_a_job_that_fails_leaves_its_newest_step_on_disk(training: MakeTraining, shared: Path) -> None:
    fleet = training("2", 1, persist_to=shared, persist_every_s=3600, max_restarts=0)
    fleet.begin(2)
    fleet.train_to(4, 1, 2)
    fleet.kill_worker(1, 0)
    ends = fleet.await_ends(60)
    assert 0 not in ends
    assert fleet.whole_steps() == [4]


def test_a_directory_that_cannot_be_used_costs_the_training_nothing(training: MakeTraining, tmp_path: Path) -> None:
    # It may not resume, so there is nothing that a new job could begin with.
    fleet = training("1", 1, persist_to=tmp_path / "missing", may_resume=False)
    fleet.begin(1)
    fleet.train_to(3, 1, 1)
    fleet.kill_worker(1, 0)
    fleet.await_round(2, 1)
    assert fleet.restored(2) == {3}

    def is_reported() -> bool:
        (report,) = fleet.reports()
        return report is not None and "No such file or directory" in report.persist_error

    eventually(is_reported, within_s=40, what="the report has the error", pause_s=0.1)
    assert fleet.finish_all() == [0]
    log = fleet.log_of(0).read_text()
    assert log.count("the last kept steps of this node are not on disk yet, trying again: ") == 1, log
    assert log.count("step 3 was not written to keep.persistTo in the 30 s that this node had at its end: ") == 1, log
    assert "was not persisted" not in log, "the directory is the cause, and has its line"
    assert "this node waits" not in log


def test_a_node_reports_the_persisted_step_and_its_time(training: MakeTraining, shared: Path) -> None:
    began_ns = time.time_ns()
    fleet = training("1", 1, persist_to=shared)
    fleet.begin(1)
    fleet.train_to(2, 1, 1)
    number = fleet.await_persisted(2)

    def is_reported() -> bool:
        (report,) = fleet.reports()
        return report is not None and (report.persisted_step, report.persist_error) == (number, "")

    eventually(is_reported, within_s=40, what="the report has the step", pause_s=0.1)
    (report,) = fleet.reports()
    assert report is not None
    assert began_ns - 10**9 < report.persisted_ns < time.time_ns()  # file systems have coarse clocks


def test_a_round_that_cannot_read_the_persisted_step_is_followed_by_one_without_it(
    training: MakeTraining, shared: Path
) -> None:
    first = persist_step_5(training, shared)
    (path,) = shared.glob("*/step-5.*")
    (path / "link").symlink_to("/etc")
    again = training("1", 1, persist_to=shared, run_id=first.run_id, restore_timeout_s=2.0)
    again.run_training()
    again.await_round(2, 1)
    assert again.rounds() == {2}
    assert again.restored(2) == {None}
    again.finish()
    shutil.rmtree(path)
