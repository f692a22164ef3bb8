"""A node whose workers may start warm, with scripts that count their own runs in files."""

import asyncio
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from elasticjob_agent.supervisor import Child, Command, LineSink, Supervisor
from elasticjob_agent.warm_start.limits import Limits
from elasticjob_agent.warm_start.memory_monitor import MemoryMonitor
from elasticjob_agent.warm_start.warm_starter import WarmStart
from testing.waiting import aeventually, scaled
from tests.integration.supervisor.commands import RecordingConsole

VARYING = frozenset({"RANK", "ROUND"})
FAST = Limits(quiet_s=scaled(0.2))  # on a busy machine one import may take longer than 0.2 s

_RUN = """
import os, sys, time
open(os.path.join({runs!r}, "{{}}-{{}}-{{}}".format(os.environ["ROUND"], os.environ["RANK"], os.getpid())), "w").close()
"""
_WAIT = """
while not os.path.exists(os.path.join({folder!r}, "end")): time.sleep(0.01)
"""


class WarmNode:
    """Starts rounds of a script on one node, each with `nproc` workers."""

    def __init__(
        self,
        supervisor: Supervisor,
        folder: Path,
        env: Mapping[str, str],
        *,
        limits: Limits = FAST,
        memory: MemoryMonitor | None = None,
    ) -> None:
        self.supervisor = supervisor
        self.folder = folder
        self.runs = folder / "runs"
        self.runs.mkdir()
        self.packages = folder / "lib" / "site-packages"
        self.packages.mkdir(parents=True)
        self.work = folder / "work"
        self.work.mkdir()
        self.env = {**env, "PYTHONPATH": str(self.packages), "PYTHONDONTWRITEBYTECODE": "1"}
        self.console = RecordingConsole()
        self.preload = RecordingConsole()
        self.starter = WarmStart(supervisor, varying=VARYING, output=self.preload, limits=limits, memory=memory)
        self.cwd = str(self.work)
        self.children: list[Child] = []
        self.round = 0
        self.nproc = 2
        self.cpus: frozenset[int] = frozenset()
        self.starts_itself = True
        """Whether the process that the agent starts is the one that runs the script."""

    def script(self, imports: str = "import decimal", *, name: str = "train.py", end: str | None = None) -> Path:
        """Write a script that imports these modules, leaves a file for this run, and waits for `finish`."""
        path = self.work / name
        last = _WAIT.format(folder=str(self.folder)) if end is None else end
        # The recorder writes a module when the next import begins.
        path.write_text(_RUN.format(runs=str(self.runs)) + imports + "\nimport colorsys\n" + last)
        return path

    def package(self, name: str, code: str) -> Path:
        """Install a package of this name with this code."""
        path = self.packages / f"{name}.py"
        path.write_text(code)
        return path

    def command(self, argv: Sequence[str], rank: int) -> Command:
        """Return the command of this rank in the next round."""
        return Command(
            name=f"rank {rank}",
            argv=tuple(word.replace("{rank}", str(rank)).replace("{round}", str(self.round)) for word in argv),
            env={**self.env, "RANK": str(rank), "ROUND": str(self.round)},
            cwd=self.cwd,
            cpus=self.cpus,
            stdout=LineSink(None, b"", self.console),
            stderr=LineSink(None, b"", self.console),
        )

    async def start(self, *argv: str | Path) -> list[bool]:
        """Start the next round of this command, by default Python and the script; return which workers are warm."""
        self.round += 1
        words = [str(word) for word in argv] or self.argv()
        self.children = await self.starter.spawn([self.command(words, rank) for rank in range(self.nproc)])
        return [child.is_warm for child in self.children]

    def argv(self) -> list[str]:
        """Return the usual command: Python and the script."""
        return [sys.executable, str(self.work / "train.py")]

    async def restart(self, *argv: str | Path) -> list[bool]:
        """Kill the workers and start the next round."""
        await self.stop()
        return await self.start(*argv)

    async def stop(self) -> None:
        """Kill the workers of this round."""
        await self.supervisor.stop(self.children, grace_s=0)

    async def ran(self) -> None:
        """Wait until the script has begun in each worker of this round, and check that no other process ran it."""
        await aeventually(
            lambda: len(self.run_files()) >= self.nproc, what=f"runs {self.run_files()}, {self.console.data!r}"
        )
        pids = {child.pid for child in self.children}
        if self.starts_itself:
            assert {int(name.rpartition("-")[2]) for name in self.run_files()} == pids
        assert len(self.run_files()) == self.nproc

    def run_files(self) -> list[str]:
        """Return the names of the files that the script has left in this round: round, rank, pid."""
        return sorted(each.name for each in self.runs.glob(f"{self.round}-*"))

    async def forked_ahead(self) -> None:
        """Wait until a worker waits for each rank."""
        await aeventually(self._are_forked_ahead, what="workers that wait for a command")
        await self.settled()

    def _are_forked_ahead(self) -> bool:
        assert not self.starter._reasons.refusal, self.starter._reasons.refusal
        return len(self.waiting()) >= self.nproc

    def waiting(self) -> list[int]:
        """Return the pids of the workers that wait for a command."""
        ready = self.starter._zygote.ready
        return [worker.pid for worker in ready.workers if worker.is_alive and worker.pid] if ready else []

    def zygote(self) -> int:
        """Return the pid of the zygote that forks."""
        assert self.starter._zygote.ready
        return self.starter._zygote.ready.zygote.child.pid

    async def settled(self) -> None:
        """Wait until nothing is being built or forked."""
        if self.starter._task is not None:
            await asyncio.wait([self.starter._task])

    def values(self) -> list[str]:
        """Return the values that the script has printed in this round."""
        head = f"value {self.round} "
        return [line.removeprefix(head) for line in self.console.lines if line.startswith(head)]

    def run_count(self) -> int:
        """Return how often the script has run in all rounds."""
        return len(list(self.runs.iterdir()))


def clean_environment(token: Mapping[str, str]) -> dict[str, str]:
    """Return an environment in which Python finds itself and nothing of the tests."""
    return {"PATH": os.environ["PATH"], "LANG": "C.UTF-8", **token}
