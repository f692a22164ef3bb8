"""Run a program cold, recorded and warm, and compare everything that it shows."""

import asyncio
import json
import re
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from elasticjob_agent.supervisor import Command, FileSink, LineSink, Sink, Supervisor
from elasticjob_agent.warm_start.limits import Limits
from elasticjob_agent.warm_start.warm_starter import WarmStart
from testing.waiting import aeventually
from tests.integration.supervisor.commands import RecordingConsole
from tests.integration.warm_start.programs import ARCHIVE, FILES

KINDS = ("cold", "recorded", "warm")

DIFFERENCES = {
    "recorded": {
        "process environ": "Its `/proc/PID/environ` has two variables of the agent more, and another `PYTHONPATH`.",
        "meta_path": "Its `sys.meta_path` begins with a finder that finds nothing.",
        "high descriptors": "It has one more descriptor, with a number above those of its files.",
        "caught signals": "It catches one more signal, by which the agent asks for stacks.",
    },
    "warm": {
        "process environ": "Its `/proc/PID/environ`, as `ps e` and debuggers show it, is that of the zygote. "
        "`os.environ` and `getenv` are right.",
        "modules": "Its `sys.modules` has the modules that were imported ahead, before the script imports them.",
        "importer cache": "Its `sys.path_importer_cache` begins empty.",
        "frozen objects": "`gc.get_freeze_count()` counts what the imports have made, and `gc.get_objects()` omits it.",
        "exit functions": "`atexit` has one function more, which makes the collector take part in the end.",
        "caught signals": "It catches one more signal, by which the agent asks for stacks.",
    },
}
"""Kind of start → line of the probe → the sentences about it in docs/warm-start.md. Everything else is the same."""

OTHER_DIFFERENCES = (
    "All ranks and rounds of a zygote have the same hashes of strings, as if `PYTHONHASHSEED` were set.",
    "Text that an import prints appears once, after `[preload]`, and not in the output of each worker.",
    "A value that an import takes from the clock is that of the zygote. The start times of log records are corrected.",
    "Imports ahead run before the folder of the script is in `sys.path`.",
    "With `-m`, `sys.argv[0]` is `-m` at that time.",
    "Imports ahead see nothing of what the script does before it imports.",
    "A change by an import, such as a handler of the root logger or of a signal, comes before the first line of",
    "All ranks have it, also if only local rank 0 imports the package.",
    "A warning about the line that imports a package names a line of the zygote, or is not shown.",
    "`gc.get_stats()` counts the collections of the zygote. It has only one of all objects, after the imports.",
    "The kernel's start time of the process is that of its fork, which is before its round.",
    "Functions that an import has registered by `os.register_at_fork` have run in it.",
)
"""Sentences of docs/warm-start.md about differences that a single probe cannot show."""


@dataclass(frozen=True, slots=True)
class Case:
    """One row of the matrix: a command, and what is special about it."""

    name: str
    words: tuple[str, ...]
    """Options and target, after the interpreter; for a script that names its interpreter, the whole command."""
    env: Mapping[str, str] = field(default_factory=dict)
    is_script: bool = False
    to_file: bool = False


@dataclass(frozen=True, slots=True)
class Outcome:
    """Everything that is left of a worker."""

    code: int
    stdout: str
    stderr: str
    file: str | None

    def observed(self) -> dict[str, object]:
        """Return the lines of the probe; nothing if this is another program."""
        lines = [line.partition("\t") for line in self.stdout.splitlines()]
        return {name: json.loads(value) for name, tab, value in lines if tab}


class Matrix:
    """Runs cases with one supervisor, in a folder with all programs."""

    def __init__(self, supervisor: Supervisor, folder: Path, env: Mapping[str, str], python: str) -> None:
        self._supervisor = supervisor
        self._folder = folder
        # The agent gives each worker this variable; with it, workers register the signal for their stacks.
        self._env = {**env, "ELASTICJOB_PROGRESS": str(folder.parent / "progress")}
        self._python = python
        for name, source in FILES.items():
            path = folder / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(source)
        (folder / "archived").mkdir()
        with zipfile.ZipFile(folder / "app.zip", "w") as archive:
            for name, source in ARCHIVE.items():
                archive.writestr(name, source)
                (folder / "archived" / name).write_text(source)
        script = folder / "named.py"
        script.write_text(
            f"#!{python} -u\nimport json, sys\nprint(sys.argv, sys.path[0], sys.flags, __file__)\n1 / 0\n"
        )
        script.chmod(0o755)
        (folder / "own").mkdir()
        (folder / "own" / "sitecustomize.py").write_text(
            "import os, sys\nos.environ['FROM_SITE'] = '1'\nsys.from_site = 1\n"
        )

    async def run(self, case: Case) -> dict[str, Outcome]:
        """Return the outcome of each kind of start."""
        outcomes = {"cold": await self._start(case, self._supervisor)}
        console = RecordingConsole()
        starter = WarmStart(self._supervisor, varying={"RANK"}, output=console, limits=Limits(quiet_s=0.05))
        try:
            outcomes["recorded"] = await self._start(case, starter)
            await aeventually(
                lambda: _is_ready(starter), what=f"a warm worker; {starter._reasons.refusal} {console.data!r}"
            )
            outcomes["warm"] = await self._start(case, starter)
            assert not starter.reason, starter.reason
        finally:
            await starter.close()
        return outcomes

    async def _start(self, case: Case, starter: Supervisor | WarmStart) -> Outcome:
        paths = [self._folder.parent / name for name in ("out", "err")]
        left = self._folder / "left.txt"
        for path in (*paths, left):
            path.unlink(missing_ok=True)
        stdout, stderr = (_sink(path, to_file=case.to_file) for path in paths)
        words = case.words if case.is_script else (self._python, *case.words)
        env = {**self._env, "RANK": "3", **case.env}
        command = Command(name="rank 3", argv=words, env=env, cwd=str(self._folder), stdout=stdout, stderr=stderr)
        [child] = await starter.spawn([command])
        code = (await child.exit).code
        await asyncio.wait([child.drained])
        out, err = (_plain(path.read_text(errors="backslashreplace")) for path in paths)
        return Outcome(code, out, err, left.read_text() if left.exists() else None)


def _is_ready(starter: WarmStart) -> bool:
    assert not starter._reasons.refusal, starter._reasons.refusal
    return bool(
        starter._zygote.ready and any(worker.pid and worker.is_alive for worker in starter._zygote.ready.workers)
    )


def _sink(path: Path, *, to_file: bool) -> Sink:
    return FileSink(path) if to_file else LineSink(path=path, prefix=b"", write=lambda _: None)


def _plain(text: str) -> str:
    """Return this text without addresses in memory."""
    return re.sub(r"0x[0-9a-f]{6,}", "0xADDRESS", text)
