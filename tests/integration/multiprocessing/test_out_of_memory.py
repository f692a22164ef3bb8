"""The failure of a worker that the kernel kills for lack of memory names this: a real control group, a real kill."""

import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from testing.waiting import eventually, scaled

_MEMORY = Path("/sys/fs/cgroup/memory")
_LIMIT_BYTES = 200 << 20
_PARENT = """
import os, sys
from pathlib import Path

Path(sys.argv[1], "cgroup.procs").write_text(str(os.getpid()))
from elasticjob_agent.multiprocessing import start_processes

context = start_processes("w", sys.executable, {0: ("-c", sys.argv[2])}, None, sys.argv[3])
print(context.wait(60).failures[0].message)
"""
_EATER = "blocks = []\nwhile True: blocks.append(bytearray(b'x') * (10 << 20))"
_KILLED = "import os; os.kill(os.getpid(), 9)"


@pytest.fixture
def group() -> Iterator[Path]:
    """A control group of version 1 with little memory."""
    if not os.access(_MEMORY / "cgroup.procs", os.W_OK):
        pytest.skip("no memory control group version 1 that may be written")
    group = _MEMORY / f"elasticjob-{uuid.uuid4().hex}"
    group.mkdir()
    for limit in (
        "memory.limit_in_bytes",
        "memory.memsw.limit_in_bytes",
    ):  # the second is not everywhere
        if (group / limit).exists():
            (group / limit).write_text(str(_LIMIT_BYTES))
    yield group
    eventually(lambda: not (group / "cgroup.procs").read_text(), what="an empty control group")
    group.rmdir()


@pytest.mark.parametrize(("script", "starved"), [(_EATER, True), (_KILLED, False)], ids=["by the kernel", "by another"])
def test_an_out_of_memory_kill_differs_from_another_kill(
    group: Path,
    tmp_path: Path,
    script: str,
    starved: bool,  # noqa: FBT001 - a column of the table
) -> None:
    command = [sys.executable, "-c", _PARENT, str(group), script, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=scaled(100))
    assert done.stdout.startswith("Signal 9 (SIGKILL) received by PID "), done.stderr
    assert ("(out of memory: " in done.stdout) == starved
