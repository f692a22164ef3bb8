"""Workers run on the processors that `numa_options` gives them, from their first moment on.

Two workers with cores of their own divide every machine that has two cores, also one with a single NUMA node.
"""

import ast
import os
import sys
from pathlib import Path

import pytest

from elasticjob_agent.host.numa import AffinityMode, NumaOptions, cpu_bindings
from elasticjob_agent.multiprocessing import Std, start_processes
from elasticjob_agent.multiprocessing.subprocess_handler import SubprocessHandler
from testing.waiting import eventually

OWN_CORES = NumaOptions(AffinityMode.EXCLUSIVE)
PRINT = "import os; print(sorted(os.sched_getaffinity(0)))"


def affinity() -> list[int]:
    """Return the processors of this process; nothing but its start has set them."""
    return sorted(os.sched_getaffinity(0))


@pytest.fixture
def halves() -> dict[int, list[int]]:
    """Return the processors that each of two workers must have."""
    found = cpu_bindings(OWN_CORES, 2)
    assert not found[0] & found[1]
    return {rank: sorted(each) for rank, each in enumerate(found)}


@pytest.mark.parametrize("method", ["spawn", "fork", "forkserver"])
def test_functions_run_where_they_are_bound(tmp_path: Path, halves: dict[int, list[int]], method: str) -> None:
    args: dict[int, tuple[()]] = {0: (), 1: ()}
    context = start_processes("w", affinity, args, log_dir=tmp_path, start_method=method, numa_options=OWN_CORES)
    result = context.wait(60)
    assert result
    assert result.return_values == halves


def test_commands_run_where_they_are_bound(tmp_path: Path, halves: dict[int, list[int]]) -> None:
    args = dict.fromkeys(range(2), ("-c", PRINT))
    context = start_processes("w", sys.executable, args, log_dir=tmp_path, redirects=Std.OUT, numa_options=OWN_CORES)
    assert context.wait(60)
    assert {rank: ast.literal_eval(Path(path).read_text()) for rank, path in context.stdouts.items()} == halves


def test_a_handler_by_itself_binds_too(halves: dict[int, list[int]]) -> None:
    handler = SubprocessHandler("sleep", ("60",), {"LOCAL_WORLD_SIZE": "2"}, None, None, 1, OWN_CORES)
    try:
        eventually(lambda: sorted(os.sched_getaffinity(handler.proc.pid)) == halves[1], within_s=30)
    finally:
        handler.close()
        handler.proc.wait(30)


def test_without_options_no_worker_is_bound(tmp_path: Path) -> None:
    result = start_processes("w", affinity, {0: ()}, log_dir=tmp_path).wait(60)
    assert result
    assert result.return_values == {0: affinity()}
