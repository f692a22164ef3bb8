"""Functions in processes of their own, as `torch.multiprocessing.spawn` has them, without torch."""

from elasticjob_agent.spawn.errors import ProcessException, ProcessExitedException, ProcessRaisedException

__all__ = ["ProcessException", "ProcessExitedException", "ProcessRaisedException"]
