"""`--numa-binding`: which processors each worker of this node is bound to, as `numa_options` of the library.

Looked up once, before anything is started: a machine that does not allow it is a wrong command line, not a worker's
failure. The binding itself is made by the starter before the worker's program begins.
"""

from collections.abc import Callable, Mapping

from elasticjob_agent.cli.options import UsageError
from elasticjob_agent.host.cpu_topology import Cpus, Topology, read_topology
from elasticjob_agent.host.numa import AffinityMode, CannotBind, bind_to_mode, numa_nodes_of


def parse_binding(
    mode: str | None, nproc: int, environment: Mapping[str, str], read: Callable[[], Topology] = read_topology
) -> tuple[Cpus, ...]:
    """The processors of each local rank; nothing if no binding is asked for. Raises UsageError.

    Args:
        mode: node, socket, exclusive or core-complex; None: workers are not bound.
        nproc: workers on this node.
        environment: where CUDA_VISIBLE_DEVICES may be.
        read: how the machine is built.
    """
    if mode is None:
        return ()
    try:
        topology = read()
        return tuple(bind_to_mode(topology, AffinityMode(mode), numa_nodes_of(topology, nproc, environment)))
    except (CannotBind, OSError, ValueError) as error:
        raise UsageError(
            f"--numa-binding {mode}: workers cannot be bound to processors here: {error}; leave it out, or take "
            f"another of {', '.join(AffinityMode)}"
        ) from error


def cpus_of_rank(cpus: tuple[Cpus, ...], local_rank: int) -> Cpus:
    """Those of one worker; empty: it is not bound."""
    return cpus[local_rank] if cpus else frozenset()
