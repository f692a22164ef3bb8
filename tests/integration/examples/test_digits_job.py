"""The example as a job: real processes, killed, shrunk and robbed of their files, must still prove their result.

Most tests begin where three nodes of two workers lost one worker in the third epoch. That round is run once. Each test
continues with a copy of the nodes' folders.
"""

import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from checkpoint import Checkpoint, decode, save
from model import Model

from tests.integration.examples.launcher import EPOCHS, PER_EPOCH, SLOW, TOTAL, Launcher, Round

Make = Callable[..., Launcher]


@dataclass
class Crash:
    """A job after its first round, and that round."""

    job: Launcher
    round: Round


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    made: list[Launcher] = []

    def launcher(*, shared: bool = False) -> Launcher:
        made.append(Launcher(tmp_path, shared=shared))
        return made[-1]

    yield launcher
    for each in made:
        each.stop()


@pytest.fixture(scope="module")
def crash(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Crash]:
    """Rank 3 of 6 was killed in the third epoch, and all others ended."""
    job = Launcher(tmp_path_factory.mktemp("crash"))
    yield Crash(job, killed_in_third_epoch(job, [0, 1, 2], per_node=2, kill=3))
    job.stop()


@pytest.fixture
def crashed(crash: Crash, tmp_path: Path) -> Iterator[Launcher]:
    """The crashed job, to go on with."""
    job = crash.job.continued(tmp_path / "job")
    yield job
    job.stop()


def killed_in_third_epoch(job: Launcher, nodes: list[int], *, per_node: int, kill: int) -> Round:
    started = job.start(nodes, per_node=per_node, arguments=SLOW)
    job.until_step(nodes[-1], 2 * PER_EPOCH + 1)
    started.kill(kill)
    started.wait()
    return started


def assert_proven(started: Round) -> None:
    assert set(started.wait()) == {0}, started.output()
    assert len(started.proof()) == 4, started.output()
    assert all(line.endswith(": holds") for line in started.proof())


def alter_newest(job: Launcher, node: int, change: Callable[[Checkpoint], Checkpoint]) -> None:
    """Replace a node's newest checkpoint by another one that is valid in itself."""
    newest = job.files(node, "*.ckpt")[-1]
    save(newest.parent, change(decode(newest.read_bytes(), size=Model(32).size)), node=node)


def test_six_workers_train_and_prove_it(make: Make) -> None:
    done = make().start([0, 1, 2])
    assert_proven(done)
    assert f"each of {EPOCHS} checkpoints ({EPOCHS} on 6 ranks)" in done.proof()[0]


def test_one_worker_is_a_world_too(make: Make) -> None:
    assert_proven(make().start([0], per_node=1))


def test_a_batch_may_have_fewer_samples_than_there_are_ranks(make: Make) -> None:
    assert_proven(make().start([0, 1], arguments=("--epochs", "1", "--batch", "3", "--lr", "0.05")))


def test_peers_of_a_killed_worker_end_with_one_line_each(crash: Crash) -> None:
    assert crash.round.wait() == [1, 1, 1, -9, 1, 1]
    assert "rank 0: lost the connection to rank 3 at step " in crash.round.output(0)
    for rank in (1, 2, 4, 5):
        assert crash.round.output(rank).startswith(f"rank {rank}: lost the connection to rank 0 at step ")
        assert crash.round.output(rank).count("\n") == 1


def test_training_goes_on_from_the_checkpoint_after_a_kill(crashed: Launcher) -> None:
    saved = crashed.saved_step(0)
    second = crashed.start([0, 1, 2])
    assert_proven(second)
    expected = f"1-{saved} in round 1 (6 workers), {saved + 1}-{TOTAL} in round 2 (6 workers); repeated"
    assert f"{expected} after a checkpoint: {saved + 1}-" in second.proof()[2]


def test_the_hub_may_be_killed_as_well(make: Make) -> None:
    job = make()
    killed_in_third_epoch(job, [0, 1], per_node=1, kill=0)
    assert_proven(job.start([0, 1], per_node=1))


def test_fewer_workers_finish_the_same_training(crashed: Launcher) -> None:
    saved = crashed.saved_step(0)
    second = crashed.start([0, 2])
    assert_proven(second)
    assert f"{saved + 1}-{TOTAL} in round 2 (4 workers)" in second.proof()[2]


def test_a_node_without_its_folder_gets_the_parameters_from_another(crashed: Launcher) -> None:
    saved = crashed.saved_step(1)
    shutil.rmtree(crashed.node_folder(0))
    second = crashed.start([0, 1, 2], per_node=1)
    assert_proven(second)
    assert f"go on from step {saved}\n" in second.output()


def test_one_surviving_node_is_enough_whatever_its_new_rank(crashed: Launcher) -> None:
    saved = crashed.saved_step(2)
    second = crashed.start([7, 8, 2], per_node=1)
    assert_proven(second)
    assert f"1-{saved} in round 1 (6 workers)" in second.proof()[2]


def test_the_story_survives_though_no_node_saw_all_of_it(crashed: Launcher) -> None:
    first_saved = crashed.saved_step(2)
    second = crashed.start([2, 7], per_node=1, arguments=SLOW)
    crashed.until_step(7, first_saved + PER_EPOCH + 1)
    second.kill(1)
    second.wait()
    second_saved = crashed.saved_step(7)
    third = crashed.start([7, 8], per_node=1)
    assert_proven(third)
    assert f"1-{first_saved} in round 1 (6 workers), " in third.proof()[2]
    assert f"{first_saved + 1}-{second_saved} in round 2 (2 workers), " in third.proof()[2]


def test_nodes_may_share_the_checkpoint_folder(make: Make) -> None:
    job = make(shared=True)
    killed_in_third_epoch(job, [0, 1], per_node=1, kill=1)
    assert_proven(job.start([0, 1, 2], per_node=1))


def test_a_finished_job_started_again_only_proves(make: Make) -> None:
    job = make()
    assert_proven(job.start([0, 1], per_node=1))
    again = job.start([0], per_node=1)
    assert_proven(again)
    assert f"go on from step {TOTAL}\n" in again.output()


def test_more_epochs_may_be_asked_for_later(crashed: Launcher) -> None:
    saved = crashed.saved_step(0)
    longer = crashed.start([0], per_node=1, arguments=("--epochs", "8", "--lr", "1.0"))
    assert_proven(longer)
    assert f"{saved + 1}-{8 * PER_EPOCH} in round 2 (1 workers)" in longer.proof()[2]


def test_a_damaged_checkpoint_is_ignored_with_one_line(crashed: Launcher) -> None:
    saved = crashed.saved_step(1)
    newest = crashed.files(0, "*.ckpt")[-1]
    newest.write_bytes(newest.read_bytes()[:-100])
    second = crashed.start([0, 1], per_node=1)
    assert_proven(second)
    assert second.output().count(f"rank 0: ignored the checkpoint {newest.name}: torn or altered") == 1
    assert f"go on from step {saved}\n" in second.output()


def test_when_all_newest_checkpoints_are_damaged_the_one_before_is_used(crashed: Launcher) -> None:
    saved = crashed.saved_step(0)
    newest = crashed.files(0, "*.ckpt")[-1]
    newest.write_bytes(newest.read_bytes() + b"x")
    second = crashed.start([0, 8], per_node=1)
    assert_proven(second)
    assert f"go on from step {saved - PER_EPOCH}\n" in second.output()


def test_other_parameters_on_one_node_are_found_by_their_hash(crashed: Launcher) -> None:
    saved = crashed.saved_step(1)
    alter_newest(crashed, 1, lambda checkpoint: replace(checkpoint, parameters=checkpoint.parameters + 1e-9))
    second = crashed.start([0, 1, 2])
    assert second.wait() == [1] * 6
    assert f"rank 0: the checkpoint of step {saved} differs between nodes: ranks 0, 4 " in second.output()
    assert ", rank 2 " in second.output()


def test_other_parameters_on_all_nodes_fail_the_comparison_with_one_process(crashed: Launcher) -> None:
    for node in (0, 1):
        alter_newest(crashed, node, lambda checkpoint: replace(checkpoint, parameters=checkpoint.parameters * 1.01))
    second = crashed.start([0, 1], per_node=1)
    assert second.wait() == [1, 0]
    assert second.proof()[1].endswith("allowed 1e-06: FAILS: too far apart")


def test_a_lost_checkpoint_is_an_unproven_repetition(crashed: Launcher) -> None:
    saved = crashed.saved_step(0)
    crashed.files(0, "*.ckpt")[-1].unlink()
    second = crashed.start([0, 8], per_node=1)
    assert second.wait() == [1, 0]
    told = f"round 2 went back to step {saved - PER_EPOCH}, though there was a checkpoint of step {saved}"
    assert told in second.proof()[2]


def test_a_step_missing_in_a_journal_fails_the_proof(crashed: Launcher) -> None:
    (journal,) = crashed.files(1, "*.journal")
    lines = journal.read_text().splitlines(keepends=True)
    journal.write_text("".join(line for line in lines if '"step": 20}' not in line))
    second = crashed.start([0, 1], per_node=1)
    assert second.wait() == [1, 0]
    assert "round 1 did step 21 where 20 was due" in second.proof()[2]


def test_files_ahead_of_the_epochs_asked_for_are_refused_in_one_line(crashed: Launcher) -> None:
    saved = crashed.saved_step(0)
    shorter = crashed.start([0], per_node=1, arguments=("--epochs", "1", "--lr", "1.0"))
    assert shorter.wait() == [1]
    assert f"is at step {saved}, beyond --epochs ({PER_EPOCH})\n" in shorter.output()
    assert shorter.output().count("\n") == 1


def test_an_unwritable_folder_is_one_line(make: Make, tmp_path: Path) -> None:
    obstacle = tmp_path / "file"
    obstacle.touch()
    started = make().start([0], extra={"CHECKPOINT_DIR": str(obstacle)}, per_node=1)
    assert started.wait() == [1]
    assert started.output().startswith("rank 0: ")
    assert started.output().count("\n") == 1


def test_progress_reaches_the_fifo(make: Make, tmp_path: Path) -> None:
    fifo = tmp_path / "progress"
    os.mkfifo(fifo)
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    try:
        make().start([0], extra={"ELASTICJOB_PROGRESS": str(fifo)}).wait()
        told = os.read(reader, 65536).decode().splitlines()
    finally:
        os.close(reader)
    assert len(told) == EPOCHS
    assert told[-1].startswith(f'{{"step": {TOTAL}, "total": {TOTAL}, "metrics": {{"loss": "0.')


def test_progress_that_nobody_reads_does_not_matter(make: Make, tmp_path: Path) -> None:
    fifo = tmp_path / "progress"
    os.mkfifo(fifo)
    assert_proven(make().start([0], extra={"ELASTICJOB_PROGRESS": str(fifo)}))
