"""`import elasticjob`: jobs on a cluster, and the launchers for this machine, under one name.

Each name is imported at its first use: the import of the package takes a millisecond and needs none of the extras.
`ElasticJob` and its parts need `elasticjob[cli]` when they connect to a cluster or read YAML. `launch`, `spawn`,
`start_processes` and `record` need no extra.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from elasticjob.cluster import ALL_NAMESPACES as ALL_NAMESPACES
    from elasticjob.cluster import Cluster as Cluster
    from elasticjob.errors import ElasticJobError as ElasticJobError
    from elasticjob.job import ElasticJob as ElasticJob
    from elasticjob.logs import LogLine as LogLine
    from elasticjob.multinode.launcher import join_nodes as join_nodes
    from elasticjob.multinode.launcher import launch_nodes as launch_nodes
    from elasticjob_agent.launch import launch as launch
    from elasticjob_agent.multiprocessing import start_processes as start_processes
    from elasticjob_agent.multiprocessing.errors import record as record
    from elasticjob_agent.spawn import spawn as spawn
    from elasticjob_api.constants import ConditionType as ConditionType
    from elasticjob_api.constants import Phase as Phase
    from elasticjob_api.spec import JobSpec as JobSpec
    from elasticjob_api.status import JobStatus as JobStatus

_MODULES = {
    "ALL_NAMESPACES": "elasticjob.cluster",
    "Cluster": "elasticjob.cluster",
    "ConditionType": "elasticjob_api.constants",
    "ElasticJob": "elasticjob.job",
    "ElasticJobError": "elasticjob.errors",
    "JobSpec": "elasticjob_api.spec",
    "JobStatus": "elasticjob_api.status",
    "LogLine": "elasticjob.logs",
    "Phase": "elasticjob_api.constants",
    "join_nodes": "elasticjob.multinode.launcher",
    "launch": "elasticjob_agent.launch",
    "launch_nodes": "elasticjob.multinode.launcher",
    "record": "elasticjob_agent.multiprocessing.errors",
    "spawn": "elasticjob_agent.spawn",
    "start_processes": "elasticjob_agent.multiprocessing",
}
__all__ = sorted(_MODULES)  # noqa: PLE0605  # the table of modules is the only list


def __getattr__(name: str) -> Any:
    """Return a public name from its module, which is imported at the first use."""
    if name not in _MODULES:
        raise AttributeError(f"module 'elasticjob' has no attribute {name!r}; it has {', '.join(__all__)}")
    found = globals()[name] = getattr(import_module(_MODULES[name]), name)
    return found


def __dir__() -> list[str]:
    """Return all names, including those that were not used yet."""
    return sorted({*globals(), *__all__})
