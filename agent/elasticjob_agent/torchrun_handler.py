"""The public path of `elasticjob_agent.torchrun.rdzv_handler`."""

from elasticjob_agent.torchrun.rdzv_handler import get_handler

__all__ = ["get_handler"]
