"""A core dump is named in the failure exactly if the kernel reports one."""

import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.integration.multiprocessing.conftest import Start

_CRASH = "ulimit -c {blocks} && cd {folder} && kill -SEGV $$"


def _crash(folder: Path, *, may_dump: bool) -> str:
    return _CRASH.format(blocks="$(ulimit -Hc)" if may_dump else 0, folder=folder)


def _kernel_dumps(script: str) -> bool:
    """Return whether the wait status of the same crash has a dump; this machine's core_pattern may discard dumps."""
    with subprocess.Popen(["/bin/sh", "-c", script]) as crash:
        _, status = os.waitpid(crash.pid, 0)
        crash.returncode = os.waitstatus_to_exitcode(status)
    assert crash.returncode == -signal.SIGSEGV
    return os.WCOREDUMP(status)


def _message(start: Start, script: str) -> str:
    context = start("/bin/sh", {0: ("-c", script)})
    result = context.wait(60)
    assert result is not None
    failure = result.failures[0]
    assert (failure.exitcode, failure.signal_name()) == (-signal.SIGSEGV, "SIGSEGV")
    return str(failure.message)


@pytest.mark.parametrize("may_dump", [True, False])
def test_a_core_dump_is_named_if_there_is_one(start: Start, tmp_path: Path, may_dump: bool) -> None:  # noqa: FBT001
    script = _crash(tmp_path, may_dump=may_dump)
    dumped = _kernel_dumps(script)
    assert ("(core dumped)" in _message(start, script)) == dumped
    assert may_dump or not dumped
