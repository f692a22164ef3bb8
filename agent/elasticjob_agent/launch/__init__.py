"""A function on every local rank of a node, with the variables that training code reads.

    launch(train, config, nprocs=8)      # each process calls train(config)

It is NVIDIA's single-node launch helper, extended to several nodes; at the end every process tree is removed and
reaped.
"""

from elasticjob_agent.launch.errors import MainProcessError, WorkerError
from elasticjob_agent.launch.launcher import launch, set_start_method
from elasticjob_agent.net.ports import free_port

__all__ = ["MainProcessError", "WorkerError", "free_port", "launch", "set_start_method"]
