"""The limit of processes for a job on one machine: a job that needs more memory is rejected before it starts."""

from collections.abc import Iterator

from elasticjob_api.errors import FieldError
from elasticjob_api.spec import JobSpec
from elasticjob_cli.local.environment import Machine

_PROCESS_BYTES = 24 * 2**20
"""Memory of a Python process that has imported no large module."""
_ALWAYS = 64
"""Processes that are allowed on any machine, since a worker need not be Python."""


def process_faults(spec: JobSpec, machine: Machine) -> Iterator[FieldError]:
    """Yield a fault if the agents and workers of a job are more processes than this machine's memory can hold."""
    workers = spec.nproc_per_node if isinstance(spec.nproc_per_node, int) else machine.cpus
    processes = spec.replicas * (workers + 1)
    most = max(_ALWAYS, machine.memory_bytes // _PROCESS_BYTES)
    if processes > most:
        message = (
            f"is {spec.replicas}: with {workers} workers per node that is {processes} processes, but the memory of this"
            f" machine is enough for about {most}; set a smaller spec.replicas or spec.nprocPerNode"
        )
        yield FieldError("spec.replicas", message)
