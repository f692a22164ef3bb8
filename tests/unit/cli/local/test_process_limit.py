"""`elasticjob run` refuses a job with more processes than the machine's memory can hold, before it starts one."""

from typing import Literal

import pytest

from elasticjob_api.spec import JobSpec
from elasticjob_cli.local.environment import Machine
from elasticjob_cli.local.process_limit import process_faults

GIB = 2**30


def faults_of(replicas: int, nproc: int | Literal["auto"], *, memory_bytes: int = 4 * GIB, cpus: int = 2) -> list[str]:
    spec = JobSpec(template={"spec": {}}, replicas=replicas, nproc_per_node=nproc)
    return [str(fault) for fault in process_faults(spec, Machine(cpus=cpus, memory_bytes=memory_bytes))]


@pytest.mark.parametrize(("replicas", "nproc"), [(1, 1), (3, 2), (8, 8), (2, "auto"), (50, 2)])
def test_a_job_that_fits_is_run(replicas: int, nproc: int | Literal["auto"]) -> None:
    assert faults_of(replicas, nproc) == []


def test_more_nodes_than_the_memory_holds_are_refused_with_the_numbers_and_the_cure() -> None:
    [fault] = faults_of(20_000, 2)
    assert fault == (
        "spec.replicas: is 20000: with 2 workers per node that is 60000 processes, but the memory of this machine"
        " is enough for about 170; set a smaller spec.replicas or spec.nprocPerNode"
    )


def test_more_workers_than_the_memory_holds_are_refused() -> None:
    assert faults_of(2, 1024)


def test_auto_counts_the_cores() -> None:
    assert faults_of(100, "auto", cpus=64)


def test_a_small_machine_still_runs_a_few_processes() -> None:
    assert faults_of(8, 4, memory_bytes=GIB // 4) == []
