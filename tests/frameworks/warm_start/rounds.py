"""Run rounds of one training program on this machine, cold or warm, by the agent's own supervisor and warm start."""

import asyncio
import contextlib
import os
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from elasticjob_agent.net.ports import ReservedPort
from elasticjob_agent.supervisor import Child, Command, LineSink, Supervisor
from elasticjob_agent.warm_start.warm_starter import WarmStart
from elasticjob_agent.workers import torchrun_env
from testing.waiting import aeventually, scaled

PROGRAMS = Path(__file__).parent / "programs"
WORKERS = 2
HANG_S = 120.0
"""Seconds on a quiet machine after which a round counts as hanging."""
_BUILD_S = 120.0
_STDERR_BYTES = 20_000
_FOLLOWS_US = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "PYTEST_CURRENT_TEST")
"""Variables of the tests' own Python."""


@dataclass(frozen=True, slots=True)
class RoundResult:
    """One round that has ended."""

    kind: str
    """`cold` or `warm`."""
    results: tuple[str, ...]
    """The line of each rank: hash and loss; empty if it wrote none."""
    ends: tuple[str, ...]
    """How each rank ended, such as `exited with code 0`; after SIGABRT with the reason that C++ or C has printed."""
    took_s: float
    stderr: tuple[str, ...]

    @property
    def has_succeeded(self) -> bool:
        """Whether all ranks have a result and ended with 0."""
        return all(self.results) and set(self.ends) == {"exited with code 0"}


class Rounds:
    """Runs rounds of one program; see `open_rounds`."""

    def __init__(
        self, supervisor: Supervisor, starter: WarmStart, *, argv: Sequence[str], env: Mapping[str, str], folder: Path
    ) -> None:
        self._supervisor = supervisor
        self._starter = starter
        self._argv = tuple(argv)
        self._env = env
        self._folder = folder
        self._port = ReservedPort("127.0.0.1")

    async def cold(self) -> RoundResult:
        """Run one round whose workers are exec'ed."""
        return await self._run(self._supervisor)

    async def record(self) -> RoundResult:
        """Run the round that records its imports, and wait until the workers of the next one are forked ahead."""
        result = await self._run(self._starter)
        await self._await_forked()
        return result

    async def warm(self) -> RoundResult:
        """Run one round whose workers were forked ahead. Raises AssertionError if they were not."""
        await self._await_forked()
        result = await self._run(self._starter)
        assert result.kind == "warm", f"not warm: {self._starter.reason}"
        return result

    async def _await_forked(self) -> None:
        """Wait until the next workers are forked. Raises AssertionError if there is a reason against it."""

        def is_decided() -> bool:
            ready = self._starter._zygote.ready
            forked = [] if ready is None else [each for each in ready.workers if each.is_alive and each.pid]
            return len(forked) >= WORKERS or bool(self._starter._reasons.refusal)

        await aeventually(is_decided, within_s=_BUILD_S, what="a decision on the zygote")
        assert not self._starter._reasons.refusal, f"not warm: {self._starter._reasons.refusal}"

    async def _run(self, starter: Supervisor | WarmStart) -> RoundResult:
        output = [[bytearray(), bytearray()] for _ in range(WORKERS)]
        port = self._port.acquire()
        commands = [self._command(rank, port, output[rank]) for rank in range(WORKERS)]
        self._port.release()
        began_s = time.monotonic()
        children = await starter.spawn(commands)
        ends = await self._await_ends(children)
        took_s = time.monotonic() - began_s
        kind = "warm" if all(child.is_warm for child in children) else "cold"
        results = tuple(_last_line(stdout) for stdout, _ in output)
        stderr = tuple(err.decode(errors="replace") for _, err in output)
        return RoundResult(kind, results, tuple(map(_with_reason, ends, stderr)), took_s, stderr)

    async def _await_ends(self, children: Sequence[Child]) -> tuple[str, ...]:
        await asyncio.wait([child.exit for child in children], timeout=scaled(HANG_S))
        hanging = [child for child in children if not child.exit.done()]
        await self._supervisor.stop(children, grace_s=0)
        return tuple("hung" if child in hanging else child.exit.result().sentence for child in children)

    def _command(self, rank: int, port: int, output: Sequence[bytearray]) -> Command:
        env = {**self._env, "RANK": str(rank), "LOCAL_RANK": str(rank), "MASTER_PORT": str(port)}
        stdout, stderr = (LineSink(None, b"", _keep(place)) for place in output)
        return Command(
            name=f"rank {rank}", argv=self._argv, env=env, cwd=str(self._folder), stdout=stdout, stderr=stderr
        )


class _keep:  # noqa: N801 - used as a function
    def __init__(self, place: bytearray) -> None:
        self._place = place

    def __call__(self, data: bytes) -> None:
        self._place += data
        del self._place[:-_STDERR_BYTES]


def _with_reason(end: str, stderr: str) -> str:
    """Return this end, and after SIGABRT the last line: that of an abort in a race at the end is always the same."""
    *_, last = "", *stderr.splitlines()
    return f"{end}: {last}" if end == "killed by SIGABRT" else end


def _last_line(stdout: bytearray) -> str:
    lines = [line for line in stdout.decode(errors="replace").splitlines() if line.startswith("{")]
    return lines[-1] if lines else ""


@contextlib.asynccontextmanager
async def open_rounds(
    program: str, python: Path, folder: Path, *, more: Mapping[str, str] | None = None
) -> AsyncIterator[Rounds]:
    """Yield the rounds of `programs/<program>.py`; `folder` is their working directory, `more` are more variables."""
    supervisor = await Supervisor.create()
    starter = WarmStart(supervisor, varying=torchrun_env.NAMES)
    argv = (str(python), str(PROGRAMS / f"{program}.py"))
    try:
        yield Rounds(supervisor, starter, argv=argv, env=environment(folder) | dict(more or {}), folder=folder)
    finally:
        await starter.close()
        await supervisor.close()


def environment(folder: Path) -> dict[str, str]:
    """Return the variables that all ranks and rounds have in common."""
    own = {name: value for name, value in os.environ.items() if name not in _FOLLOWS_US}
    return {
        **own,
        "WORLD_SIZE": str(WORKERS),
        "LOCAL_WORLD_SIZE": str(WORKERS),
        "MASTER_ADDR": "127.0.0.1",
        "GLOO_SOCKET_IFNAME": "lo",
        "OMP_NUM_THREADS": "1",
        "OUTPUT_FOLDER": str(folder),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
