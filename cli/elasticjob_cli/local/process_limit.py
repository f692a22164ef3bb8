"""How many processes a job may have on one machine: more than its memory holds are refused before anything starts."""

from collections.abc import Iterator

from elasticjob_api.errors import FieldError
from elasticjob_api.spec import JobSpec
from elasticjob_cli.local.environment import Machine

_PROCESS_BYTES = 24 * 2**20
"""Memory of a Python process that has imported nothing of size."""
_ALWAYS = 64
"""So many processes are allowed on any machine: a worker need not be Python."""


def process_faults(spec: JobSpec, machine: Machine) -> Iterator[FieldError]:
    """The fault of a job whose agents and workers are more processes than this machine's memory holds."""
    workers = spec.nproc_per_node if isinstance(spec.nproc_per_node, int) else machine.cpus
    processes = spec.replicas * (workers + 1)
    most = max(_ALWAYS, machine.memory_bytes // _PROCESS_BYTES)
    if processes > most:
        why = (
            f"is {spec.replicas}: with {workers} workers a node that is {processes} processes, and this machine's"
            f" memory holds some {most}; set a smaller spec.replicas or spec.nprocPerNode"
        )
        yield FieldError("spec.replicas", why)
