"""The examples publish steps and restore them, with a real keeper in the place of the agent.

The keeper takes what is published by moving it away, and links the parts of a step into one directory. That is all that
a script sees of it. `make test-frameworks` runs these tests: torch, JAX and XGBoost come from hack/frameworks-venv.
"""

import asyncio
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from elasticjob_api.kept_steps import KeptStep, Lineage
from testing.network.ports import unused_port
from testing.waiting import scaled
from tests.integration.keep.conftest import memory
from tests.integration.keep.keepers import WatchedClient, keeper

pytestmark = pytest.mark.timeout(300)

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = Path(__file__).with_name("kept_step_program.py")
DISKS = {"ddp": "checkpoint", "fsdp": "folder", "sampler": "folder", "jax": "checkpoint.npz", "xgboost": "model.json"}
NO_STEP = 0
examples = pytest.mark.parametrize("example", list(DISKS))


@dataclass(frozen=True)
class State:
    """The state of a training at one step, by its digest."""

    step: int
    digest: str


@dataclass
class Job:
    """Rounds of one example over one volume, whose keeper is real."""

    example: str
    client: WatchedClient
    python: str
    disk: Path
    newest: KeptStep | None = None
    """The newest whole step."""
    left: tuple[str, ...] = ()
    """The names that were left in the directory to publish in."""
    rounds: int = 0

    async def run(
        self,
        world: int = 1,
        *,
        publish: int = NO_STEP,
        save: int = NO_STEP,
        room: str = "enough",
        keeps: bool = True,
    ) -> dict[str, State]:
        """Run one round up to the later one of these steps; return the state at each event of rank 0."""
        self.rounds += 1
        lineage = Lineage(self.rounds, f"round{self.rounds}")
        history = "" if self.newest is None else f"{self.newest.lineage}.{self.newest.number}"
        incoming = await self.client.begin(lineage, restored=self.newest, history=history)
        env = {"ELASTICJOB_KEEP": str(incoming)} if keeps else {}
        if self.newest is not None:
            env["ELASTICJOB_KEPT"] = str(await self.client.restore(self.newest))
            env["ELASTICJOB_KEPT_STEP"] = str(self.newest.number)
        output, *_ = await asyncio.to_thread(self._run_ranks, world, env, publish, save, room)
        self.left = tuple(path.name for path in incoming.iterdir() if not path.name.startswith("step-"))
        held = await self.client.seal()
        whole = [step for step, parts in held.items() if len(parts) == step.parts]
        self.newest = max(whole, default=None)
        found = re.findall(r"^(\w+) (\d+) ([0-9a-f]{16})$", output, re.MULTILINE)
        return {event: State(int(step), digest) for event, step, digest in found}

    def _run_ranks(self, world: int, env: dict[str, str], publish: int, save: int, room: str) -> tuple[str, ...]:
        port = str(unused_port())
        program = [self.python, "-B", str(PROGRAM), self.example, str(self.disk), str(publish), str(save), room]
        processes = []
        for rank in range(world):
            ranks = {
                "RANK": str(rank),
                "LOCAL_RANK": str(rank),
                "WORLD_SIZE": str(world),
                "LOCAL_WORLD_SIZE": str(world),
            }
            master = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "OMP_NUM_THREADS": "1"}
            processes.append(
                subprocess.Popen(
                    program,
                    env={**os.environ, **ranks, **master, **env},
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    text=True,
                )
            )
        outputs = tuple(process.communicate(timeout=scaled(120))[0] for process in processes)
        assert [process.returncode for process in processes] == [0] * world, "\n".join(outputs)
        return outputs


@pytest.fixture(scope="module")
def python() -> str:
    """Return the interpreter that has all frameworks."""
    return subprocess.run([ROOT / "hack/frameworks-venv"], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


@pytest.fixture
def above() -> Iterator[Path]:
    """Return a directory in memory."""
    made = Path(tempfile.mkdtemp(prefix="kept-", dir=memory()))
    yield made
    shutil.rmtree(made, ignore_errors=True)


@pytest.fixture
async def job(example: str, python: str, above: Path, tmp_path: Path) -> AsyncIterator[Job]:
    """Return a job of this example, without a step."""
    async with keeper(above / "volume") as client:
        yield Job(example, client, python, tmp_path / DISKS[example])


@examples
async def test_a_published_step_is_restored(job: Job) -> None:
    first = await job.run(publish=3)
    assert first["loaded"].step == 0
    assert job.newest is not None
    assert (job.newest.number, job.newest.parts) == (3, 1)
    second = await job.run(publish=5)
    assert second["loaded"] == first["published"]
    assert (await job.run())["loaded"] == second["published"]
    assert job.client.notices == []


@examples
async def test_the_newer_one_of_the_kept_step_and_the_checkpoint_on_disk_counts(job: Job) -> None:
    first = await job.run(publish=3, save=5)
    second = await job.run(publish=9, save=7)
    assert second["loaded"] == first["saved"]
    assert (await job.run())["loaded"] == second["published"]


@examples
async def test_a_step_for_which_there_is_no_room_is_left_out(job: Job) -> None:
    kept = await job.run(publish=3)
    await job.run(publish=5, room="full")
    assert job.left == ()
    assert (await job.run())["loaded"] == kept["published"]
    assert job.client.notices == []


@pytest.mark.parametrize("example", ["fsdp", "sampler"])
async def test_parts_of_a_sharded_step_are_restored_by_any_number_of_ranks(job: Job) -> None:
    one = await job.run(1, publish=2)
    three = await job.run(3, publish=4)
    assert three["loaded"] == one["published"]
    assert job.newest is not None
    assert (job.newest.number, job.newest.parts) == (4, 3)
    two = await job.run(2, publish=6)
    assert two["loaded"] == three["published"]
    assert (await job.run(3))["loaded"] == two["published"]
    assert job.client.notices == []


@pytest.mark.parametrize("example", ["ddp"])
async def test_one_worker_of_a_node_publishes_a_full_copy(job: Job) -> None:
    first = await job.run(2, publish=2)
    assert job.newest is not None
    assert (job.newest.number, job.newest.parts) == (2, 1)
    assert (await job.run(3))["loaded"] == first["published"]
    assert job.client.notices == []


@examples
async def test_without_a_directory_to_publish_in_nothing_is_published(job: Job) -> None:
    saved = (await job.run(publish=3, save=5, keeps=False))["saved"]
    assert (job.newest, job.left) == (None, ())
    assert (await job.run(keeps=False))["loaded"] == saved
