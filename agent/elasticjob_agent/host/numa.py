"""Binding workers to processors: which ones each gets, from what is asked for and how the machine is built.

A worker belongs to the NUMA node of its GPU, if the kernel knows it; otherwise workers are spread evenly over the
nodes, in order of local ranks. On a machine with one node all of them belong to it: `node` and `socket` then mean all
its processors, and `exclusive` and `core-complex` still divide them. Memory follows: the kernel gives it where it is
first touched. The binding is made before the worker's program begins, and holds for all that it starts.
"""

import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from elasticjob_agent.host.cpu_topology import Cpus, Topology, read_topology


class AffinityMode(StrEnum):
    """How many processors a worker gets."""

    NODE = "node"  # all of its NUMA node
    SOCKET = "socket"  # all of the sockets that its node is on
    EXCLUSIVE = "exclusive"  # whole cores of its node that no other worker of the node has
    CORE_COMPLEX = "core-complex"  # those of its node that share one last-level cache


@dataclass(frozen=True, slots=True)
class NumaOptions:
    """What `numa_options` may be; torch's own object is as good."""

    affinity_mode: AffinityMode
    should_fall_back_if_binding_fails: bool = False
    """Go on unbound, with a warning, where binding is not possible."""


class CannotBind(Exception):
    """This machine, or this number of workers, does not allow it."""


def cpu_bindings(numa_options: Any, nprocs: int, environment: Mapping[str, str] | None = None) -> list[Cpus]:
    """The processors of each local rank; empty sets: it is not bound.

    Args:
        numa_options: None, or an object with `affinity_mode` and `should_fall_back_if_binding_fails`.
        nprocs: workers on this node.
        environment: where CUDA_VISIBLE_DEVICES may be; None: our own.

    Raises:
        NotImplementedError: it is not possible here, and the options do not allow to go on without.
        ValueError: there is no such mode.
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
            raise NotImplementedError(f"{message}; leave out numa_options, or let it fall back") from error
        warnings.warn(f"{message}; they run unbound", stacklevel=3)
        return unbound


def numa_nodes_of(topology: Topology, nprocs: int, environment: Mapping[str, str]) -> list[int]:
    """The NUMA node of each local rank."""
    nodes = list(topology.nodes)
    gpus = _visible(topology.gpus, environment.get("CUDA_VISIBLE_DEVICES"))
    if len(gpus) >= nprocs and all(home in topology.nodes for home in gpus[:nprocs]):
        return list(gpus[:nprocs])
    return [nodes[rank * len(nodes) // nprocs] for rank in range(nprocs)]


def _visible(gpus: Sequence[int], variable: str | None) -> list[int]:
    """The nodes of those that are to be seen; none, if they are named in a way that only the driver understands."""
    if variable is None:
        return list(gpus)
    numbers = [int(word) for word in variable.split(",") if word.strip().isdecimal()]
    return [gpus[number] for number in numbers if number < len(gpus)]


def bind_to_mode(topology: Topology, mode: AffinityMode, nodes: Sequence[int]) -> list[Cpus]:
    """The processors of each local rank, whose nodes are `places`; raises CannotBind."""
    return [_bind_one(topology, mode, node, *_round_robin(nodes, rank)) for rank, node in enumerate(nodes)]


def _round_robin(places: Sequence[int], rank: int) -> tuple[int, int]:
    """Which of those on its node it is, and how many they are."""
    mates = [other for other, node in enumerate(places) if node == places[rank]]
    return mates.index(rank), len(mates)


def _bind_one(topology: Topology, mode: AffinityMode, node: int, position: int, mates: int) -> Cpus:
    cpus = topology.nodes[node]
    if mode is AffinityMode.NODE:
        return cpus
    if mode is AffinityMode.SOCKET:
        return frozenset().union(*(socket for socket in topology.sockets if socket & cpus))
    if mode is AffinityMode.EXCLUSIVE:
        return _slice([core & cpus for core in topology.cores if core & cpus], node, position, mates)
    complexes = [cache & cpus for cache in topology.caches if cache & cpus]
    return complexes[position * len(complexes) // mates if mates <= len(complexes) else position % len(complexes)]


def _slice(cores: Sequence[Cpus], node: int, position: int, mates: int) -> Cpus:
    """A part of the node's cores; the first ones get one more if they cannot be divided evenly."""
    if len(cores) < mates:
        raise CannotBind(f"node {node} has {len(cores)} cores for {mates} workers that want their own")
    each, more = divmod(len(cores), mates)
    first = position * each + min(position, more)
    return frozenset().union(*cores[first : first + each + (position < more)])
