"""A function on every local rank of a node, with the variables that training code reads.

    launch(train, config, nprocs=8)      # each process calls train(config)

NVIDIA's single-node launch helper, for several nodes too, with every process tree removed and reaped in the end.
"""

from elasticjob_agent.launch._port import free_port
from elasticjob_agent.launch.errors import MainProcessError, WorkerError
from elasticjob_agent.launch.launcher import launch, set_start_method

__all__ = ["MainProcessError", "WorkerError", "free_port", "launch", "set_start_method"]
