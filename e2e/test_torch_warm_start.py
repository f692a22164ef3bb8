"""Warm starts of a training with torch: the seconds until all ranks train again, and the same losses as cold ones."""

import secrets
import statistics
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from e2e.latencies import TRAINING
from e2e.programs import run
from e2e.space import JOB, Space
from e2e.torch_job import AUTO, OFF, PRINTED, WORLD, TorchJob
from e2e.torch_python import TorchPython
from testing.waiting import eventually

pytestmark = [pytest.mark.nightly, pytest.mark.torch, pytest.mark.timeout(1800)]
TURNS = 2
KILLS = 4
"""Kills of each job."""
KINDS = {AUTO: "warm start", OFF: "no warm start"}
Measured = Callable[[str, float], None]


@pytest.fixture(scope="module")
def measured(measured_on: Callable[[str], Measured]) -> Measured:
    """Return a recorder for the table of the training steps."""
    return measured_on(TRAINING)


def test_after_the_kill_of_a_worker_all_ranks_train_on_warm_with_the_same_losses(
    own_space: Space, torch_python: TorchPython, measured: Measured
) -> None:
    took: dict[str, list[float]] = {AUTO: [], OFF: []}
    losses, key = set(), secrets.token_hex()
    for turn in range(TURNS):
        for kind, seconds in took.items():
            job = TorchJob(own_space, torch_python, kind, key)
            first = job.start()
            # The second job with warm starts has the import profile of the first one.
            assert first.warm == [kind == AUTO and turn > 0] * WORLD
            rounds = [first]
            for number in range(1, KILLS + 1):
                if kind == AUTO:
                    job.await_forked_ahead()
                killed_at_s, after = job.kill_worker(number % WORLD, number)
                seconds.append(after.first_step_at_s - killed_at_s)
                assert after.warm == [kind == AUTO] * WORLD
                _check_start(own_space, number + 1, kind)
                rounds.append(after)
            losses |= {each.losses for each in rounds}
            own_space.delete_job()
    [of_ranks] = losses
    assert [len(set(of_rank)) for of_rank in of_ranks] == [PRINTED] * WORLD
    assert len(set(of_ranks)) == WORLD
    for kind, seconds in took.items():
        print(KINDS[kind], *(f"{each:.3f}" for each in seconds))
        what = f"DDP, worker SIGKILLed, {KINDS[kind]} -> next step of all ranks"
        measured(f"{what}, median of {len(seconds)}", statistics.median(seconds))
        measured(f"{what}, longest of {len(seconds)}", max(seconds))


def test_a_replaced_pod_starts_warm_with_the_imports_of_another_and_trains_the_same(
    own_space: Space, torch_python: TorchPython, measured: Measured
) -> None:
    losses = set()
    for kind, words in KINDS.items():
        job = TorchJob(own_space, torch_python, kind)
        first = job.start()
        if kind == AUTO:
            job.await_forked_ahead()
            _await_import_profile(own_space)
        lost = job.pods()[1]
        deleted_at_s = own_space.delete_pod(lost)
        number = own_space.replaced(lost)["rendezvousRound"]
        after = job.round(number)
        measured(
            f"DDP, kubectl delete pod, {words} -> replaced, next step of all", after.first_step_at_s - deleted_at_s
        )
        assert after.warm == [kind == AUTO] * WORLD
        _check_start(own_space, number, kind)
        losses |= {first.losses, after.losses}
        own_space.delete_job()
    assert len(losses) == 1


def _await_import_profile(space: Space) -> None:
    uid = space.job()["metadata"]["uid"]
    eventually(
        lambda: any(key.endswith("/w/imports") for key in space.cluster.etcd_keys(uid)),
        within_s=60,
        what="an import profile",
        pause_s=0.5,
    )


def _check_start(space: Space, number: int, kind: str) -> None:
    """Check how the status and `elasticjob describe` show the start of this round's workers."""
    wanted = number, ["Warm"] * WORLD if kind == AUTO else []

    def shown() -> tuple[int, list[str]]:
        status = space.status()
        return status["rendezvousRound"], [node["start"]["kind"] for node in status["nodes"] if "start" in node]

    eventually(lambda: shown() == wanted, within_s=60, what=f"the start of this round: {wanted}", pause_s=0.5)
    sentence = f"The workers of {WORLD} nodes were started warm"
    assert (sentence in _describe(space)) == (kind == AUTO)


def _describe(space: Space) -> str:
    program = Path(sys.executable).with_name("elasticjob")
    return run(program, "describe", JOB, "--namespace", space.name, "--context", f"kind-{space.cluster.name}")
