"""`--numa-binding` on machines of several shapes, and the error for an impossible binding."""

from pathlib import Path

import pytest

from elasticjob_agent.cli.options import NUMA_MODES
from elasticjob_agent.errors import UsageError
from elasticjob_agent.host.cpu_topology import Topology, format_cpus, read_topology
from elasticjob_agent.host.numa import AffinityMode
from elasticjob_agent.workers.cpu_binding import cpus_of_rank, parse_binding
from tests.unit.multiprocessing.machines import machine


def bound_on(folder: Path, mode: str, nproc: int, **environment: str) -> list[str]:
    """Return the processors of each worker on the machine whose files are in `folder`."""
    return [
        format_cpus(cpus) for cpus in parse_binding(mode, nproc, environment, lambda: read_topology(range(16), folder))
    ]


def test_the_options_values_are_the_librarys_modes() -> None:
    assert sorted(AffinityMode) == list(NUMA_MODES)


@pytest.mark.parametrize(
    ("mode", "cpus"),
    [
        ("node", ["0-3,8-11", "4-7,12-15"]),
        ("socket", ["0-3,8-11", "4-7,12-15"]),
        ("exclusive", ["0-3,8-11", "4-7,12-15"]),
        ("core-complex", ["0-1,8-9", "4-5,12-13"]),
    ],
)
def test_two_workers_are_spread_over_two_nodes(tmp_path: Path, mode: str, cpus: list[str]) -> None:
    assert bound_on(machine(tmp_path, nodes=2, cores=4), mode, 2) == cpus


@pytest.mark.parametrize(
    ("mode", "cpus"),
    [
        ("node", ["0-15", "0-15"]),
        ("socket", ["0-15", "0-15"]),
        ("exclusive", ["0-3,8-11", "4-7,12-15"]),
        ("core-complex", ["0-3,8-11", "4-7,12-15"]),
    ],
)
def test_on_one_numa_node_only_exclusive_and_core_complex_divide_the_processors(
    tmp_path: Path, mode: str, cpus: list[str]
) -> None:
    assert bound_on(machine(tmp_path, nodes=1, cores=8), mode, 2) == cpus


def test_workers_follow_their_gpus(tmp_path: Path) -> None:
    folder = machine(tmp_path, nodes=2, cores=4, gpus=(1, 0))
    assert bound_on(folder, "node", 2) == ["4-7,12-15", "0-3,8-11"]
    assert bound_on(folder, "node", 2, CUDA_VISIBLE_DEVICES="1,0") == ["0-3,8-11", "4-7,12-15"]


def test_without_the_option_no_worker_is_bound() -> None:
    assert parse_binding(None, 2, {}) == ()
    assert cpus_of_rank((), 1) == frozenset()


def test_an_impossible_binding_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"--numa-binding exclusive: .* node 0 has 2 cores for 3 workers .*; omit the"):
        bound_on(machine(tmp_path, nodes=1, cores=2), "exclusive", 3)


def test_an_unreadable_topology_is_a_usage_error() -> None:
    def unreadable() -> Topology:
        raise PermissionError(13, "Permission denied", "/sys/devices/system/node/node0/cpulist")

    with pytest.raises(UsageError, match=r"--numa-binding node: .* Permission denied: '/sys/devices/system/node"):
        parse_binding("node", 1, {}, unreadable)
