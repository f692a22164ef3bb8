"""`--numa-binding`: workers of the agent are bound as by the library, with the option and with the variable."""

import os
import re
import subprocess
import sys

import pytest

from elasticjob_agent.host.cpu_topology import format_cpus
from elasticjob_agent.host.numa import AffinityMode, NumaOptions, cpu_bindings
from testing.waiting import scaled

pytestmark = pytest.mark.etcd

PRINT = "import os; print(f'rank {os.environ[\"LOCAL_RANK\"]} on {sorted(os.sched_getaffinity(0))}')"


def agent(*options: str, **variables: str) -> "subprocess.CompletedProcess[str]":
    """Run an agent whose two workers print the processors that they may use."""
    line = [sys.executable, "-m", "elasticjob_agent.cli.main", "--standalone", "--nproc-per-node", "2", *options]
    command = [*line, "--no-python", sys.executable, "-S", "-c", PRINT]
    return subprocess.run(
        command, env={**os.environ, **variables}, capture_output=True, text=True, timeout=scaled(60), check=False
    )


def expected(mode: AffinityMode) -> list[tuple[str, str]]:
    found = cpu_bindings(NumaOptions(mode), 2)
    return [(str(rank), str(sorted(cpus))) for rank, cpus in enumerate(found)]


def printed(run: "subprocess.CompletedProcess[str]") -> list[tuple[str, str]]:
    assert run.returncode == 0, run.stderr
    return sorted(re.findall(r"rank (\d) on (.*)", run.stdout))


@pytest.mark.parametrize("mode", [AffinityMode.EXCLUSIVE, AffinityMode.NODE])
def test_workers_run_on_the_processors_of_the_option(mode: AffinityMode) -> None:
    run = agent("--numa-binding", mode)
    assert printed(run) == expected(mode)
    bound = "; ".join(format_cpus(cpus) for cpus in cpu_bindings(NumaOptions(mode), 2))
    assert f"workers are bound to CPUs, by local rank: {bound}" in run.stderr


def test_the_variable_binds_like_the_option() -> None:
    assert printed(agent(PET_NUMA_BINDING="exclusive")) == expected(AffinityMode.EXCLUSIVE)


def test_without_either_workers_run_on_all_processors_of_the_agent() -> None:
    usable = str(sorted(os.sched_getaffinity(0)))
    assert printed(agent()) == [("0", usable), ("1", usable)]


def test_more_workers_than_cores_are_refused_and_nothing_is_started() -> None:
    run = agent("--numa-binding", "exclusive", "--nproc-per-node", "1024")
    assert run.returncode == 2
    assert re.search(r"--numa-binding exclusive: .* cores for \d+ workers that each need their own", run.stderr)
    assert "Traceback" not in run.stderr
