"""The processors that each worker is bound to, from the affinity mode and the topology of the machine.

A worker belongs to the NUMA node of its GPU if the kernel knows it. Otherwise workers are spread evenly over the nodes,
in order of local ranks. On a machine with one node all workers belong to it. `node` and `socket` then select all its
processors; `exclusive` and `core-complex` still divide them.

Memory follows, because the kernel allocates it on the node that first touches it. The binding is made before the
worker's program begins, and the program's children inherit it.
"""

import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from elasticjob_agent.host.cpu_topology import Cpus, Topology, read_topology


class AffinityMode(StrEnum):
    """The group of processors that a worker is bound to."""

    NODE = "node"  # all processors of its NUMA node
    SOCKET = "socket"  # all processors of the sockets that its node is on
    EXCLUSIVE = "exclusive"  # whole cores of its node that no other worker has
    CORE_COMPLEX = "core-complex"  # processors of its node that share one last-level cache


@dataclass(frozen=True, slots=True)
class NumaOptions:
    """A value for `numa_options`; torch's own object works as well."""

    affinity_mode: AffinityMode
    should_fall_back_if_binding_fails: bool = False
    """Whether workers run unbound, with a warning, if binding is not possible."""


class CannotBind(Exception):
    """Binding is not possible on this machine or with this number of workers."""


def cpu_bindings(numa_options: Any, nprocs: int, environment: Mapping[str, str] | None = None) -> list[Cpus]:
    """Return the processors of each local rank; an empty set for a worker that is not bound.

    Args:
        numa_options: None, or an object with `affinity_mode` and `should_fall_back_if_binding_fails`.
        nprocs: workers on this node.
        environment: may have CUDA_VISIBLE_DEVICES; None: the environment of this process.

    Raises:
        NotImplementedError: binding is not possible here, and the options do not allow unbound workers.
        ValueError: the affinity mode does not exist.
    """
    unbound: list[Cpus] = [frozenset()] * nprocs
    if numa_options is None or not nprocs:
        return unbound
    mode = AffinityMode(getattr(numa_options.affinity_mode, "value", numa_options.affinity_mode))
    try:
        topology = read_topology()
        return bind_to_mode(
            topology, mode, numa_nodes_of(topology, nprocs, os.environ if environment is None else environment)
        )
    except (CannotBind, OSError, ValueError, AttributeError) as error:
        message = f"workers cannot be bound to processors (affinity mode {mode.value!r}): {error}"
        if not numa_options.should_fall_back_if_binding_fails:
            cure = "omit numa_options, or set should_fall_back_if_binding_fails"
            raise NotImplementedError(f"{message}; {cure}") from error
        warnings.warn(f"{message}; they run unbound", stacklevel=3)
        return unbound


def numa_nodes_of(topology: Topology, nprocs: int, environment: Mapping[str, str]) -> list[int]:
    """Return the NUMA node of each local rank."""
    nodes = list(topology.nodes)
    gpus = _visible(topology.gpus, environment.get("CUDA_VISIBLE_DEVICES"))
    if len(gpus) >= nprocs and all(home in topology.nodes for home in gpus[:nprocs]):
        return list(gpus[:nprocs])
    return [nodes[rank * len(nodes) // nprocs] for rank in range(nprocs)]


def _visible(gpus: Sequence[int], variable: str | None) -> list[int]:
    """Return the NUMA nodes of the visible GPUs; none for names that only the driver understands, such as UUIDs."""
    if variable is None:
        return list(gpus)
    numbers = [int(word) for word in variable.split(",") if word.strip().isdecimal()]
    return [gpus[number] for number in numbers if number < len(gpus)]


def bind_to_mode(topology: Topology, mode: AffinityMode, nodes: Sequence[int]) -> list[Cpus]:
    """Return the processors of each local rank; `nodes` has the NUMA node of each. Raises CannotBind."""
    return [_bind_one(topology, mode, node, *_position_on_node(nodes, rank)) for rank, node in enumerate(nodes)]


def _position_on_node(nodes: Sequence[int], rank: int) -> tuple[int, int]:
    """Return the position of `rank` among the ranks on its NUMA node, and the number of those ranks."""
    ranks = [other for other, node in enumerate(nodes) if node == nodes[rank]]
    return ranks.index(rank), len(ranks)


def _bind_one(topology: Topology, mode: AffinityMode, node: int, position: int, workers: int) -> Cpus:
    """Return the processors of the worker at `position` among the `workers` of a NUMA node."""
    cpus = topology.nodes[node]
    if mode is AffinityMode.NODE:
        return cpus
    if mode is AffinityMode.SOCKET:
        return frozenset().union(*(socket for socket in topology.sockets if socket & cpus))
    if mode is AffinityMode.EXCLUSIVE:
        return _slice([core & cpus for core in topology.cores if core & cpus], node, position, workers)
    complexes = [cache & cpus for cache in topology.caches if cache & cpus]
    return complexes[position * len(complexes) // workers if workers <= len(complexes) else position % len(complexes)]


def _slice(cores: Sequence[Cpus], node: int, position: int, workers: int) -> Cpus:
    """Return one worker's share of the node's cores; the first workers get one more if the division has a rest."""
    if len(cores) < workers:
        raise CannotBind(f"NUMA node {node} has {len(cores)} cores for {workers} workers that each need their own")
    each, more = divmod(len(cores), workers)
    first = position * each + min(position, more)
    return frozenset().union(*cores[first : first + each + (position < more)])
