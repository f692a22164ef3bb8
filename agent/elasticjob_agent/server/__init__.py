"""Agents in torch elastic's form: `SimpleElasticAgent` is the skeleton, `LocalElasticAgent` runs local processes."""

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
