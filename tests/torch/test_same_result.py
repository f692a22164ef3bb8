"""A training goes through other sizes and kills, and its result is that of one process that nothing disturbs."""

import contextlib
import json
import os
import subprocess
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from elasticjob_agent.net.ports import free_port
from elasticjob_agent.sampler import ElasticBatchSampler
from elasticjob_etcd.embedded import EmbeddedEtcd
from testing.waiting import scaled
from tests.torch.gated_training import PLACES
from tests.torch.nodes import ROOT
from tests.torch.resized_job import ResizedJob, lineage, resized_job, samples_of_epochs, worlds

pytestmark = [pytest.mark.torch, pytest.mark.etcd]

SAMPLES = 417
GLOBAL_BATCH = 26
"""Neither 3 nor 4 ranks have equal shares, and the last batch of an epoch has one sample for all of them."""
SAVE_EVERY = 5
TOLERANCE = 1e-6
FLOAT32_TOLERANCE = 1e-4
"""A hundred times what was measured."""


@dataclass(frozen=True)
class Case:
    """One training, and how many kills disturb it."""

    parallel: str
    kills: int
    epochs: int
    dtype: str = "float64"

    @property
    def options(self) -> tuple[str, ...]:
        """Return the options of the program, without those of its parallelism."""
        plan = ("--samples", SAMPLES, "--global-batch", GLOBAL_BATCH, "--epochs", self.epochs)
        return tuple(map(str, (*plan, "--save-every", SAVE_EVERY, "--dtype", self.dtype)))

    @property
    def steps_per_epoch(self) -> int:
        """Return the number of global batches of an epoch."""
        return ElasticBatchSampler(SAMPLES, GLOBAL_BATCH).steps_per_epoch


def train_plainly(
    world: int,
    python: Path,
    *options: str,
    of_rank: Mapping[int, dict[str, str]] | None = None,
    **variables: str,
) -> str:
    """Run the example to its end in so many processes, without agents; return the output of all of them."""
    group = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": str(world)}
    helper = {"PYTHONPATH": os.pathsep.join(str(ROOT / place) for place in PLACES), "GLOO_SOCKET_IFNAME": "lo"}
    environment = {**os.environ, **group, **helper, "OMP_NUM_THREADS": "1", **variables}
    command = [str(python), str(ROOT / PLACES[0] / "train.py"), *options]
    with contextlib.ExitStack() as stack:
        ranks = [
            stack.enter_context(
                subprocess.Popen(
                    command,
                    env={**environment, "RANK": str(rank), **(of_rank or {}).get(rank, {})},
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    text=True,
                )
            )
            for rank in range(world)
        ]
        for rank in ranks:
            stack.callback(rank.kill)
        output = "\n".join(rank.communicate(timeout=scaled(120))[0] for rank in ranks)
    assert [rank.returncode for rank in ranks] == [0] * world, output
    return output


def train_alone(case: Case, python: Path, folder: Path) -> dict[str, Any]:
    """Return the result of one process with the whole global batch at once, without agent and wrapper."""
    own = ("--parallel", "none", "--micro-batch", str(GLOBAL_BATCH), "--loaders", "0", "--folder", str(folder))
    train_plainly(1, python, *case.options, *own)
    return read_result(folder)


def read_result(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "result.json").read_text())
    return found


def largest_difference(one: dict[str, Any], other: dict[str, Any]) -> float:
    """Return the largest difference of two parameters."""
    first, second = one["parameters"], other["parameters"]
    assert first.keys() == second.keys()
    largest: float = max(abs(a - b) for name in first for a, b in zip(first[name], second[name], strict=True))
    return largest


def disturb(job: ResizedJob, kills: int) -> None:
    """Go through 4, 3, 2 and 4 nodes; in each size workers are killed. Two of the kills take whole nodes."""
    of_workers = (kills - 2) // 4
    job.start_nodes(4)
    for _ in range(of_workers):
        job.kill_worker()
    for _ in range(2):
        job.lose_node(SAVE_EVERY)
        for _ in range(of_workers):
            job.kill_worker()
    job.train_past_checkpoint(SAVE_EVERY)
    job.start_nodes(2)
    for _ in range(kills - job.kills):
        job.kill_worker()


def train_disturbed(case: Case, python: Path, endpoint: str, folder: Path) -> tuple[dict[str, Any], ResizedJob]:
    """Return the result of the job, and the job with its journal."""
    checkpoints = folder / "checkpoints"
    options = ("--parallel", case.parallel, *case.options, "--folder", str(checkpoints))
    steps = case.epochs * case.steps_per_epoch
    with resized_job(python, endpoint, folder, steps=steps, options=options) as job:
        disturb(job, case.kills)
        codes = job.finish()
        assert codes == [0] * 4, "\n".join(job.agents.log_of(number).read_text() for number in range(6))
    return read_result(checkpoints), job


def check_samples(case: Case, job: ResizedJob) -> None:
    """Check that each sample of each epoch went into the result once, through all sizes."""
    steps = lineage(job.journal())
    assert list(steps) == list(range(1, case.epochs * case.steps_per_epoch + 1))
    assert all(sorted(line.rank for line in lines) == list(range(lines[0].world)) for lines in steps.values())
    assert samples_of_epochs(steps, case.steps_per_epoch) == [Counter(range(SAMPLES))] * case.epochs
    assert worlds(steps) in ([4, 3, 2, 4], [4, 3, 2, 3, 4])  # the two new nodes may join one after the other


def compare(case: Case, python: Path, server: EmbeddedEtcd, folder: Path) -> float:
    """Run a case, check its samples, and return how far its parameters are from those of one process alone."""
    disturbed, job = train_disturbed(case, python, server.endpoint.targets[0], folder)
    assert job.kills == case.kills
    check_samples(case, job)
    alone = train_alone(case, python, folder / "alone")
    apart = largest_difference(disturbed, alone)
    print(
        f"{case.parallel} {case.dtype}: {case.epochs * case.steps_per_epoch} steps, {job.kills} kills, {job.round} "
        f"rounds: max |Δ| of parameters {apart:.1e}; loss {disturbed['loss']:.9f}, undisturbed {alone['loss']:.9f}"
    )
    return apart


@pytest.mark.timeout(600)
@pytest.mark.parametrize("parallel", ["ddp", "fsdp"])
def test_ten_kills_and_other_sizes_change_nothing(
    parallel: str, torch_python: Path, etcd_server: EmbeddedEtcd, tmp_path: Path
) -> None:
    assert compare(Case(parallel, kills=10, epochs=8), torch_python, etcd_server, tmp_path) <= TOLERANCE


@pytest.mark.nightly
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("parallel", ["ddp", "fsdp"])
def test_fifty_kills_and_other_sizes_change_nothing(
    parallel: str, torch_python: Path, etcd_server: EmbeddedEtcd, tmp_path: Path
) -> None:
    assert compare(Case(parallel, kills=50, epochs=30), torch_python, etcd_server, tmp_path) <= TOLERANCE


@pytest.mark.nightly
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("parallel", ["ddp", "fsdp"])
def test_with_float32_only_the_rounding_differs(
    parallel: str, torch_python: Path, etcd_server: EmbeddedEtcd, tmp_path: Path
) -> None:
    """The samples are the same. docs/same-result.md has the difference that this prints."""
    case = Case(parallel, kills=10, epochs=30, dtype="float32")
    assert compare(case, torch_python, etcd_server, tmp_path) <= FLOAT32_TOLERANCE


@pytest.mark.timeout(300)
@pytest.mark.parametrize("parallel", ["ddp", "fsdp"])
def test_parts_that_were_kept_in_memory_are_restored_by_another_size(
    parallel: str, torch_python: Path, tmp_path: Path
) -> None:
    """The test does what an agent does with published parts: it links the files of all parts into one directory."""
    case = Case(parallel, kills=0, epochs=2)
    keep, kept, later, results = (tmp_path / name for name in ("keep", "kept", "later", "results"))
    for folder in (keep, kept, later):
        folder.mkdir()
    options = ("--parallel", parallel, *case.options, "--folder")
    train_plainly(2, torch_python, *options, str(tmp_path / "first"), ELASTICJOB_KEEP=str(keep))
    parts = sorted(keep.glob("step-20.*"))
    assert [part.name for part in parts] == ["step-20.0-of-2", "step-20.1-of-2"]
    for file in (file for part in parts for file in part.iterdir()):
        os.link(file, kept / file.name)
    train_plainly(
        3,
        torch_python,
        *options,
        str(results),
        ELASTICJOB_KEEP=str(later),
        ELASTICJOB_KEPT=str(kept),
        ELASTICJOB_KEPT_STEP="20",
    )
    assert sorted(part.name for part in later.glob("*.0-of-3")) == ["step-25.0-of-3", "step-30.0-of-3"]
    alone = train_alone(case, torch_python, tmp_path / "alone")
    assert largest_difference(read_result(results), alone) <= TOLERANCE


@pytest.mark.timeout(300)
@pytest.mark.parametrize("without", [0, 1])
def test_a_node_that_keeps_no_steps_stops_no_checkpoint_on_disk(
    without: int, torch_python: Path, tmp_path: Path
) -> None:
    """`ELASTICJOB_KEEP` may be unset on one node alone."""
    case = Case("ddp", kills=0, epochs=1)
    keep, results = tmp_path / "keep", tmp_path / "results"
    keep.mkdir()
    of_rank = {1 - without: {"ELASTICJOB_KEEP": str(keep)}}
    options = ("--parallel", "ddp", *case.options, "--folder", str(results))
    train_plainly(2, torch_python, *options, of_rank=of_rank)
    assert list(keep.iterdir()) == []
    assert sorted(path.name for path in results.glob("step-*")) == ["step-00000010", "step-00000015"]
    assert "rank 1 of 2 begins at step 15\n" in train_plainly(2, torch_python, *options, of_rank=of_rank)
    alone = train_alone(case, torch_python, tmp_path / "alone")
    assert largest_difference(read_result(results), alone) <= TOLERANCE


@pytest.mark.timeout(300)
def test_a_job_that_lost_its_memory_begins_at_its_checkpoint_on_disk(torch_python: Path, tmp_path: Path) -> None:
    keep, results = tmp_path / "keep", tmp_path / "results"
    keep.mkdir()
    options = ("--parallel", "ddp", *Case("ddp", kills=0, epochs=1).options, "--folder", str(results))
    train_plainly(1, torch_python, *options, ELASTICJOB_KEEP=str(keep))
    again = train_plainly(1, torch_python, *options, ELASTICJOB_KEEP=str(tmp_path / "empty"))
    assert "rank 0 of 1 begins at step 15\n" in again
