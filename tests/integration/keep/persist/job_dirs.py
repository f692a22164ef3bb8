"""The directory of one job on disk, and parts in memory that are written into it."""

import contextlib
import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from elasticjob_agent.keep.persist.errors import PersistError
from elasticjob_agent.keep.persist.job_dir import JobDir
from elasticjob_agent.keep.persist.layout import SourceFile, job_dir_name, whole_name
from elasticjob_api.kept_steps import KeptStep, Lineage, PersistedStep
from tests.integration.keep.parts import contents, write_files

JOB = "/elasticjob/main/team/llama/0d5a"
LINEAGE = Lineage(7, "0000000a")
PARTS: dict[int, dict[str, bytes]] = {
    0: {"__0_0.distcp": b"zero" * 1000, ".metadata": b"m"},
    1: {"__1_0.distcp": b"one" * 500, "deep/er": b"", "deep/same": b"s"},
    2: {"deep/same": b"s"},
}
"""The files of the parts of each step; two parts have an equal file."""
WHOLE = {name: data for part in PARTS.values() for name, data in part.items()}


def step_of(number: int, run: str = "1a2b3c4d", parts: int = len(PARTS), lineage: Lineage = LINEAGE) -> PersistedStep:
    """Return one persisted step."""
    return PersistedStep(run, KeptStep(lineage, number, parts))


def unlimited(count: int) -> int:
    """Let all bytes be copied at once."""
    return count


def write_part(directory: JobDir, memory: Path, step: PersistedStep, index: int, files: Mapping[str, bytes]) -> None:
    """Write one part from memory."""
    source = memory / f"{step}.{index}"
    if not source.exists():
        write_files(source, files)
    directory.write_part(step, index, source, [SourceFile(name, len(data)) for name, data in files.items()], unlimited)


def write_step(directory: JobDir, memory: Path, step: PersistedStep) -> Path:
    """Write all parts of a step, and complete it; return its directory."""
    for index, files in PARTS.items():
        write_part(directory, memory, step, index, files)
    assert directory.complete(step)
    return directory.path / whole_name(step)


def whole_directories(shared: Path, job: str = JOB) -> dict[str, dict[str, bytes]]:
    """Return the files of each final directory of a job."""
    return {path.name: contents(path) for path in sorted((shared / job_dir_name(job)).glob("step-*"))}


_WRITES = {"os.rename", "os.mkdir", "os.remove", "os.rmdir", "os.link", "os.truncate", "os.chmod", "open"}


def killed_before(operation: int, act: Callable[[], object]) -> bool:
    """Run `act` in a process that is killed before its file operation of this number; return whether it was."""
    pid = os.fork()
    if pid == 0:
        try:
            _die_before(operation)
            act()
        finally:
            os._exit(0)
    _, status = os.waitpid(pid, 0)
    assert os.WIFEXITED(status) or os.WTERMSIG(status) == signal.SIGKILL
    return os.WIFSIGNALED(status)


def each_end(act: Callable[[], object], reset: Callable[[], object]) -> Iterator[int]:
    """Yield after each end that `act` can have, the last one being its own; `reset` comes before each."""
    operation, is_killed = 0, True
    while is_killed:
        operation += 1
        reset()
        is_killed = killed_before(operation, act)
        yield operation


def exchanged_before(operation: int, act: Callable[[], object], exchange: Callable[[], object]) -> bool:
    """Run `act` in a process where `exchange` comes before its file operation of this number; return whether it did."""
    pid = os.fork()
    if pid == 0:
        is_done = []

        def once() -> None:
            is_done.append(True)
            exchange()

        try:
            _call_before(operation, once)
            with contextlib.suppress(PersistError):
                act()
        finally:
            os._exit(len(is_done))
    _, status = os.waitpid(pid, 0)
    return os.waitstatus_to_exitcode(status) == 1


def _die_before(operation: int) -> None:
    _call_before(operation, lambda: os.kill(os.getpid(), signal.SIGKILL))


def _call_before(operation: int, act: Callable[[], object]) -> None:
    count = 0

    def hook(event: str, _arguments: tuple[object, ...]) -> None:
        nonlocal count
        if event in _WRITES:
            count += 1
            if count == operation:
                act()

    sys.addaudithook(hook)
