"""`from elasticjob_agent import worker`: the helper for training scripts.

The code is one independent file in user_python/worker/, for scripts whose Python does not have this package.
"""

from elasticjob_agent.user_python.worker.elasticjob_worker import (
    catch_stop,
    dump_stacks_on_request,
    heartbeat,
    report,
    seconds_since_stop,
    stop_requested,
)

__all__ = ["catch_stop", "dump_stacks_on_request", "heartbeat", "report", "seconds_since_stop", "stop_requested"]
