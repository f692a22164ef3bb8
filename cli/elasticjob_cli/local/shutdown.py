"""The end of a run: wait for its pods, or stop them gracefully within a time limit.

To stop a job is to suspend it. The operator writes that to the rendezvous state, the agents stop their workers as for
a planned change, and the operator deletes the pods. Workers have half of the limit to end by themselves. Then they are
killed, and the operator updates the status. After the limit everything is killed, whatever is still running.
"""

import asyncio

from elasticjob_api import constants
from elasticjob_cli.local.run_view import RunView
from elasticjob_cli.local.signals import Interrupted, SignalWaiter
from elasticjob_cli.local.stack import LocalStack
from elasticjob_operator.model import objects
from elasticjob_operator.model.cluster_interface import Resource

STOP_S = 5.0
"""Default of the seconds from the first signal until no process is left."""
_MARGIN_S = 0.2
_CLEAN_UP_S = 0.8
"""Seconds to stop operator and etcd, and to write the summary, out of the limit."""
_GRACE_S = 2.5
"""Seconds for containers to end by themselves after the workers have ended."""
_END_S = 10.0
"""Seconds for the agents of an ended job to end by themselves, and then for the status; usually both happen at once."""


async def wait_pods_done(stack: LocalStack, view: RunView, signals: SignalWaiter) -> None:
    """After the end of the job, wait for the trainers, stop the other containers, and wait for the last status."""
    try:
        await signals.or_interrupted(view.until(lambda: not view.training_pods(), at_most_s=_END_S))
        await signals.or_interrupted(stack.kubelet.stop(_GRACE_S))
    except Interrupted:
        await stack.kubelet.stop(0.0)
    await view.until(lambda: not view.status.get("replicas"), at_most_s=_END_S)


async def stop(stack: LocalStack, view: RunView, signals: SignalWaiter, code: int, *, limit_s: float) -> None:
    """Suspend the job and wait for its end; `code` is the exit code if the time limit is reached first."""
    loop, grace_s = asyncio.get_running_loop(), limit_s / 2
    last_s = loop.time() + limit_s
    loop.call_at(last_s - _MARGIN_S, signals.kill, code)
    stack.kubelet.close(grace_s)
    metadata = objects.metadata(view.job)
    await stack.cluster.patch_spec(Resource.JOB, metadata["namespace"], metadata["name"], {"suspend": True})
    await view.until(lambda: not view.live_pods(), at_most_s=grace_s + _MARGIN_S)
    await stack.kubelet.stop(0.0)
    left_s = max(0.0, last_s - _CLEAN_UP_S - loop.time())
    await view.until(lambda: view.status.get("phase") == constants.Phase.SUSPENDED, at_most_s=left_s)
