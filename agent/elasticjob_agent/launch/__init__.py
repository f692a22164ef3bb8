"""A function on every local rank of one node, as NVIDIA's single-node launch helper has it."""

from elasticjob_agent.launch.errors import MainProcessError, WorkerError
from elasticjob_agent.launch.port import free_port

__all__ = ["MainProcessError", "WorkerError", "free_port"]
