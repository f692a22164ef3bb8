"""The processors of each worker on machines of several shapes, and the errors of impossible bindings."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from elasticjob_agent.host import numa
from elasticjob_agent.host.cpu_topology import Topology, format_cpus, parse_cpus, read_topology
from elasticjob_agent.host.numa import AffinityMode, NumaOptions
from tests.unit.multiprocessing.machines import cpus, machine


@pytest.fixture
def two(tmp_path: Path) -> Topology:
    """Two NUMA nodes of four cores with two threads: 0-3 and 8-11, 4-7 and 12-15."""
    return read_topology(range(16), machine(tmp_path, nodes=2, cores=4))


def test_the_kernels_lists_are_read() -> None:
    assert parse_cpus("0-3,8,10-11\n") == cpus(0, 1, 2, 3, 8, 10, 11)
    assert parse_cpus("\n") == cpus()


@pytest.mark.parametrize("text", ["", "5", "0-3,8,10-11"])
def test_processors_are_formatted_like_the_kernels_lists(text: str) -> None:
    assert format_cpus(parse_cpus(text)) == text


def test_a_machine_is_read_from_the_kernels_files(two: Topology) -> None:
    assert two.nodes == {0: cpus(0, 1, 2, 3, 8, 9, 10, 11), 1: cpus(4, 5, 6, 7, 12, 13, 14, 15)}
    assert two.cores[:2] == (cpus(0, 8), cpus(1, 9))
    assert two.caches == (cpus(0, 1, 8, 9), cpus(2, 3, 10, 11), cpus(4, 5, 12, 13), cpus(6, 7, 14, 15))


def test_only_processors_that_this_process_may_use_are_listed(tmp_path: Path) -> None:
    found = read_topology([1, 2], machine(tmp_path, nodes=2, cores=4))
    assert found.nodes == {0: cpus(1, 2)}
    assert found.cores == (cpus(1), cpus(2))


def test_the_topology_of_this_machine_can_be_read() -> None:
    found = read_topology()
    assert frozenset().union(*found.nodes.values()) <= frozenset().union(*found.cores)


@pytest.mark.parametrize(("nprocs", "nodes"), [(1, [0]), (2, [0, 1]), (3, [0, 0, 1]), (4, [0, 0, 1, 1])])
def test_without_gpus_workers_are_spread_evenly(two: Topology, nprocs: int, nodes: list[int]) -> None:
    assert numa.numa_nodes_of(two, nprocs, {}) == nodes


@pytest.mark.parametrize(
    ("environment", "nodes"),
    [({}, [1, 1]), ({"CUDA_VISIBLE_DEVICES": "3,0"}, [0, 1]), ({"CUDA_VISIBLE_DEVICES": "GPU-1,GPU-2"}, [0, 1])],
)
def test_a_worker_is_on_the_numa_node_of_its_gpu(tmp_path: Path, environment: dict[str, str], nodes: list[int]) -> None:
    found = read_topology(range(16), machine(tmp_path, nodes=2, cores=4, gpus=(1, 1, 0, 0)))
    assert numa.numa_nodes_of(found, 2, environment) == nodes


def test_in_a_container_only_gpus_that_its_driver_shows_are_listed(tmp_path: Path) -> None:
    system = machine(tmp_path / "sys", nodes=2, cores=4, gpus=(0, 0, 1, 1))
    driver = tmp_path / "gpus"
    for number in (1, 3):
        (driver / f"0000:{number:02x}:00.0").mkdir(parents=True)
    assert read_topology(range(16), system, driver).gpus == (0, 1)
    assert read_topology(range(16), system, tmp_path / "no driver").gpus == (0, 0, 1, 1)


def test_gpus_whose_node_is_not_known_do_not_count(tmp_path: Path) -> None:
    found = read_topology(range(16), machine(tmp_path, nodes=2, cores=4, gpus=(-1, -1)))
    assert numa.numa_nodes_of(found, 2, {}) == [0, 1]


@pytest.mark.parametrize(
    ("mode", "places", "expected"),
    [
        (AffinityMode.NODE, [0, 1], [cpus(0, 1, 2, 3, 8, 9, 10, 11), cpus(4, 5, 6, 7, 12, 13, 14, 15)]),
        (AffinityMode.SOCKET, [1], [cpus(4, 5, 6, 7, 12, 13, 14, 15)]),
        (AffinityMode.EXCLUSIVE, [0, 0], [cpus(0, 8, 1, 9), cpus(2, 10, 3, 11)]),
        (AffinityMode.EXCLUSIVE, [0, 0, 0], [cpus(0, 8, 1, 9), cpus(2, 10), cpus(3, 11)]),
        (AffinityMode.CORE_COMPLEX, [0, 0], [cpus(0, 1, 8, 9), cpus(2, 3, 10, 11)]),
        (AffinityMode.CORE_COMPLEX, [1], [cpus(4, 5, 12, 13)]),
        (AffinityMode.CORE_COMPLEX, [0, 0, 0], [cpus(0, 1, 8, 9), cpus(2, 3, 10, 11), cpus(0, 1, 8, 9)]),
    ],
)
def test_each_mode_gives_its_group_of_processors(
    two: Topology, mode: AffinityMode, places: list[int], expected: list[frozenset[int]]
) -> None:
    assert numa.bind_to_mode(two, mode, places) == expected


def test_more_workers_than_cores_cannot_be_exclusive(two: Topology) -> None:
    with pytest.raises(numa.CannotBind, match="NUMA node 0 has 4 cores for 5 workers that each need their own"):
        numa.bind_to_mode(two, AffinityMode.EXCLUSIVE, [0] * 5)


def test_impossible_binding_is_an_error() -> None:
    with pytest.raises(NotImplementedError, match=r"bound to processors \(affinity mode 'exclusive'\): NUMA node"):
        numa.cpu_bindings(NumaOptions(AffinityMode.EXCLUSIVE), 5000)


def test_impossible_binding_with_fallback_causes_one_warning() -> None:
    options = NumaOptions(AffinityMode.EXCLUSIVE, should_fall_back_if_binding_fails=True)
    with pytest.warns(UserWarning, match="they run unbound") as caught:
        assert numa.cpu_bindings(options, 5000) == [frozenset()] * 5000
    assert len(caught) == 1


def test_torchs_own_options_are_accepted() -> None:
    options = SimpleNamespace(affinity_mode=SimpleNamespace(value="node"), should_fall_back_if_binding_fails=False)
    [found] = numa.cpu_bindings(options, 1)
    assert found


def test_an_unknown_mode_is_refused() -> None:
    options = SimpleNamespace(affinity_mode="sideways", should_fall_back_if_binding_fails=True)
    with pytest.raises(ValueError, match="sideways"):
        numa.cpu_bindings(options, 1)


def test_without_options_no_worker_is_bound() -> None:
    assert numa.cpu_bindings(None, 3) == [frozenset()] * 3
