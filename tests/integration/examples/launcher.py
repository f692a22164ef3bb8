"""Starts the example as a launcher would: one process per rank with the torchrun environment, a folder per node.

It replaces the agent where only the example is under test. The test that creates a `Launcher` calls `stop`,
which leaves no process behind.
"""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from testing.network.ports import unused_port
from testing.waiting import eventually

DIGITS = Path(__file__).parents[3] / "examples" / "digits"

EPOCHS = 6
PER_EPOCH = 15
TOTAL = EPOCHS * PER_EPOCH
QUICK = ("--epochs", str(EPOCHS), "--lr", "1.0")
# Time for a test to see a step and to kill somebody before the epoch ends.
SLOW = (*QUICK, "--step-seconds", "0.04")


@dataclass
class Round:
    """The processes of one round and what they print."""

    processes: list[subprocess.Popen[bytes]]
    outputs: list[Path]

    def wait(self, *, within_s: float = 30.0) -> list[int]:
        """The exit codes in rank order, as soon as all have ended."""
        eventually(
            lambda: all(process.poll() is not None for process in self.processes),
            within_s=within_s,
            what="the end of all ranks",
        )
        return [process.wait() for process in self.processes]

    def kill(self, rank: int) -> None:
        """SIGKILL one rank."""
        self.processes[rank].send_signal(signal.SIGKILL)

    def output(self, rank: int = 0) -> str:
        """All that a rank has printed so far."""
        return self.outputs[rank].read_text()

    def proof(self) -> list[str]:
        """The lines of the proof."""
        return [line for line in self.output().splitlines() if line.startswith("proof: ")]


class Launcher:
    """A job of some nodes; node folders outlive rounds."""

    def __init__(self, folder: Path, *, shared: bool = False) -> None:
        self._folder = folder
        self._shared = shared
        self._before = 0
        self._copies: list[Launcher] = []
        self._rounds: list[Round] = []

    def continued(self, folder: Path) -> "Launcher":
        """Return the same job as it is now, on a copy of its nodes' folders; its next round is one later."""
        shutil.copytree(self._folder, folder, dirs_exist_ok=True)
        copy = Launcher(folder, shared=self._shared)
        copy._before = self._before + len(self._rounds)
        self._copies.append(copy)
        return copy

    def node_folder(self, node: int) -> Path:
        """CHECKPOINT_DIR of a node."""
        return self._folder / ("shared" if self._shared else f"node-{node}")

    def start(
        self,
        nodes: Sequence[int],
        *,
        per_node: int = 2,
        arguments: Sequence[str] = QUICK,
        extra: dict[str, str] | None = None,
    ) -> Round:
        """Start the next round: these nodes, in this order."""
        number = self._before + len(self._rounds) + 1
        started = Round([], [])
        self._rounds.append(started)
        port = unused_port()
        for group_rank, node in enumerate(nodes):
            for local_rank in range(per_node):
                rank = group_rank * per_node + local_rank
                env = {
                    **os.environ,
                    "RANK": str(rank),
                    "LOCAL_RANK": str(local_rank),
                    "GROUP_RANK": str(group_rank),
                    "WORLD_SIZE": str(len(nodes) * per_node),
                    "MASTER_ADDR": "127.0.0.1",
                    "MASTER_PORT": str(port),
                    "ELASTICJOB_ROUND": str(number),
                    "TORCHELASTIC_RESTART_COUNT": str(number - 1),
                    "CHECKPOINT_DIR": str(self.node_folder(node)),
                    "OMP_NUM_THREADS": "1",
                    **(extra or {}),
                }
                output = self._folder / f"round-{number}.rank-{rank}.txt"
                command = [sys.executable, "-B", "train.py", *arguments]
                with output.open("wb") as file:
                    process = subprocess.Popen(command, cwd=DIGITS, env=env, stdout=file, stderr=subprocess.STDOUT)
                started.processes.append(process)
                started.outputs.append(output)
        return started

    def files(self, node: int, pattern: str) -> list[Path]:
        """A node's files of one kind, the newest step last."""
        return sorted(self.node_folder(node).glob(f"*/{pattern}"))

    def saved_step(self, node: int) -> int:
        """The step of a node's newest checkpoint."""
        return int(self.files(node, "*.ckpt")[-1].name.split(".")[0].removeprefix("step-"))

    def until_step(self, node: int, step: int) -> None:
        """Wait until a node has journaled this step."""
        wanted = f'"step": {step}}}'
        eventually(
            lambda: any(wanted in path.read_text() for path in self.files(node, "*.journal")),
            within_s=30,
            what=f"step {step} on node {node}",
        )

    def stop(self) -> None:
        """Kill whatever still runs, of copies too."""
        for copy in self._copies:
            copy.stop()
        for process in (process for started in self._rounds for process in started.processes):
            process.kill()
            process.wait()
