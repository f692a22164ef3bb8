"""One training job under real agents whose nodes come and go, and whose workers are killed, at chosen steps."""

import contextlib
import json
import os
import random
import signal
import subprocess
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path

import psutil

from testing.processes.fleet import Fleet, fleet
from testing.waiting import eventually

PROGRAM = Path(__file__).with_name("gated_training.py")
NPROC = 1
MOST_STEPS = 6
"""Steps between two kills, at most."""
WITHIN_S = 120.0


@dataclass(frozen=True)
class TrainedStep:
    """One step of one rank, as the rank wrote it into the journal."""

    round: int
    node: int
    rank: int
    world: int
    pid: int
    step: int
    samples: list[int] = field(repr=False)


@dataclass
class ResizedJob:
    """The job, the journal of its ranks, and the gate at which they wait."""

    agents: Fleet
    command: tuple[str, ...]
    folder: Path
    steps: int
    """The length of the training. The gate stays closed before its end until `finish`."""
    randomness: random.Random
    kills: int = 0
    round: int = 0
    """The last round in which all ranks have trained a step."""
    _gate: int = 0
    _read: int = 0
    """Bytes of the journal that `_lines` has."""
    _lines: list[TrainedStep] = field(default_factory=list)

    def __post_init__(self) -> None:
        (self.folder / "journal").touch()
        self._open(0)

    def start_nodes(self, count: int) -> None:
        """Start so many agents, and wait until all nodes train together."""
        for _ in range(count):
            self.agents.start_agent(*self.command)
        self._await_world()

    def kill_worker(self) -> None:
        """Kill one worker a few steps later, and wait until all nodes train again."""
        self._advance(self.randomness.randint(1, MOST_STEPS))
        victim = self.randomness.choice([line for line in self.journal() if line.round == self.round])
        os.kill(victim.pid, signal.SIGKILL)
        self.kills += 1
        self._await_world()

    def train_past_checkpoint(self, save_every: int) -> None:
        """Let this round train some steps, one of which it saves: so the result has steps of this world."""
        self._advance(save_every + self.randomness.randint(1, MOST_STEPS))

    def lose_node(self, save_every: int) -> None:
        """Kill an agent and all processes below it, after a checkpoint in this round; wait until the others train."""
        self.train_past_checkpoint(save_every)
        node = psutil.Process(self.randomness.choice(self._running()).pid)
        for process in (node, *node.children(recursive=True)):
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        self.kills += 1
        eventually(lambda: node.pid not in [agent.pid for agent in self._running()], what="the end of the agent")
        self._await_world()

    def finish(self) -> list[int]:
        """Let the training run to its end, and return the exit codes of the nodes that were not lost."""
        self._write_gate(self.steps + 1)
        running = self._running()
        self.agents.await_ends(WITHIN_S)
        return [agent.returncode for agent in running]

    def journal(self) -> list[TrainedStep]:
        """Return all lines so far; an incomplete one is left for the next call."""
        with (self.folder / "journal").open("rb") as file:
            file.seek(self._read)
            whole = file.read().rpartition(b"\n")[0]
        if whole:
            self._read += len(whole) + 1
            self._lines += [TrainedStep(**json.loads(line)) for line in whole.splitlines()]
        return self._lines

    def _running(self) -> "list[subprocess.Popen[bytes]]":
        return [agent for agent in self.agents.agents if agent.poll() is None]

    def _advance(self, steps: int) -> None:
        """Open the gate, and wait until this round has trained so many more steps; the ranks may go a bit further."""
        begun = max(line.step for line in self.journal() if line.round == self.round)
        self._open(begun + steps + self.randomness.randint(0, 3))

        def is_there() -> bool:
            return any(line.step >= begun + steps for line in self.journal() if line.round == self.round)

        eventually(is_there, within_s=WITHIN_S, what=f"step {begun + steps} in round {self.round}")

    def _await_world(self) -> None:
        """Wait for a later round in which all nodes train."""
        world = len(self._running()) * NPROC
        self.round = eventually(
            lambda: self._newest_round(world), within_s=WITHIN_S, what=f"a world of {world} after round {self.round}"
        )

    def _newest_round(self, world: int) -> int:
        """Return the newest round, after the last one, in which all ranks of such a world have trained; 0 if none."""
        begun = {(line.round, line.rank) for line in self.journal() if line.round > self.round and line.world == world}
        counts = Counter(round_ for round_, _ in begun)
        return max((round_ for round_, count in counts.items() if count == world), default=0)

    def _open(self, step: int) -> None:
        assert step < self.steps, "the training is too short for so many kills"
        self._gate = max(self._gate, step)
        self._write_gate(self._gate)

    def _write_gate(self, step: int) -> None:
        draft = self.folder / "gate.draft"
        draft.write_text(str(step))
        draft.rename(self.folder / "gate")


def lineage(journal: list[TrainedStep]) -> dict[int, list[TrainedStep]]:
    """Return the lines of each step that went into the result: a later round repeats what an earlier one has lost."""
    rounds: dict[int, int] = {}
    for line in journal:
        rounds[line.step] = max(line.round, rounds.get(line.step, 0))
    return {
        step: [line for line in journal if (line.step, line.round) == (step, rounds[step])] for step in sorted(rounds)
    }


def worlds(steps: dict[int, list[TrainedStep]]) -> list[int]:
    """Return the sizes through which the result has gone, in order."""
    return [world for world, _ in groupby(lines[0].world for lines in steps.values())]


def samples_of_epochs(steps: dict[int, list[TrainedStep]], steps_per_epoch: int) -> list[Counter[int]]:
    """Return how often each sample of each epoch went into the result."""
    epochs: dict[int, Counter[int]] = {}
    for step, lines in steps.items():
        counts = epochs.setdefault((step - 1) // steps_per_epoch, Counter())
        counts.update(sample for line in lines for sample in line.samples)
    return [epochs[number] for number in sorted(epochs)]


@contextlib.contextmanager
def resized_job(
    python: Path, endpoint: str, folder: Path, *, steps: int, options: tuple[str, ...]
) -> Iterator[ResizedJob]:
    """Yield a job of 2 to 4 nodes without nodes; it is stopped at the end."""
    with fleet(endpoint, folder, "2:4", NPROC) as agents:
        agents.environment.update({"GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1", "ELASTICJOB_WARM_START": "Auto"})
        command = (str(python), str(PROGRAM), str(folder), *options)
        yield ResizedJob(agents, command, folder, steps, random.Random(repr(options)))
