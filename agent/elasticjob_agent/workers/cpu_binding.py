"""`--numa-binding`: the processors that each worker of this node is bound to, like `numa_options` of the library.

They are computed once, before anything is started. So an impossible binding is an error of the command line, and not a
failure of a worker. The fork server makes the binding before the worker's program begins.
"""

from collections.abc import Callable, Mapping

from elasticjob_agent.errors import UsageError
from elasticjob_agent.host.cpu_topology import Cpus, Topology, read_topology
from elasticjob_agent.host.numa import AffinityMode, CannotBind, bind_to_mode, numa_nodes_of


def parse_binding(
    mode: str | None, nproc: int, environment: Mapping[str, str], read: Callable[[], Topology] = read_topology
) -> tuple[Cpus, ...]:
    """Return the processors of each local rank; an empty tuple if workers are not bound.

    Args:
        mode: node, socket, exclusive or core-complex; None: workers are not bound.
        nproc: workers on this node.
        environment: may have CUDA_VISIBLE_DEVICES.
        read: returns the topology of the machine.

    Raises:
        UsageError: the workers cannot be bound in this way.
    """
    if mode is None:
        return ()
    try:
        topology = read()
        return tuple(bind_to_mode(topology, AffinityMode(mode), numa_nodes_of(topology, nproc, environment)))
    except (CannotBind, OSError, ValueError) as error:
        raise UsageError(
            f"--numa-binding {mode}: workers cannot be bound to processors here: {error}; omit the option, or use "
            f"another of {', '.join(AffinityMode)}"
        ) from error


def cpus_of_rank(cpus: tuple[Cpus, ...], local_rank: int) -> Cpus:
    """Return the processors of one worker; empty if it is not bound."""
    return cpus[local_rank] if cpus else frozenset()
