"""Agents in torch elastic's form: `SimpleElasticAgent` is the skeleton, `LocalElasticAgent` runs local processes."""

from typing import TYPE_CHECKING, Any

from elasticjob_agent.server.api import (
    DEFAULT_ROLE,
    ElasticAgent,
    RunResult,
    SimpleElasticAgent,
    Worker,
    WorkerGroup,
    WorkerSpec,
    WorkerState,
)

if TYPE_CHECKING:
    from elasticjob_agent.server.local_elastic_agent import LocalElasticAgent

__all__ = [
    "DEFAULT_ROLE",
    "ElasticAgent",
    "LocalElasticAgent",
    "RunResult",
    "SimpleElasticAgent",
    "Worker",
    "WorkerGroup",
    "WorkerSpec",
    "WorkerState",
]


def __getattr__(name: str) -> Any:
    """Import `LocalElasticAgent` at its first use: the agent of a pod does not need its imports."""
    if name == "LocalElasticAgent":
        from elasticjob_agent.server import local_elastic_agent  # noqa: PLC0415 - see above

        return local_elastic_agent.LocalElasticAgent
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
