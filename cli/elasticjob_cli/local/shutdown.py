"""The end of a run: letting its pods end, or stopping them in order and in time.

Stopping is suspending: the operator tells the agents through the world, so workers are stopped as for a planned
change, and then deletes the pods. What is left when the grace is over is killed. `STOP_S` is a promise: when it is
over and anything still stands in the way, everything is killed.
"""

import asyncio

from elasticjob_api import constants
from elasticjob_cli.local.run_view import RunView
from elasticjob_cli.local.signals import Interrupted, SignalWaiter, kill_everything
from elasticjob_cli.local.stack import LocalStack
from elasticjob_operator.model import objects
from elasticjob_operator.model.cluster_interface import Resource

STOP_S = 5.0
"""From the first signal until nothing runs."""
_MARGIN_S = 0.2
_GRACE_S = 2.5
"""For the workers to end in their own way, out of STOP_S."""
_STATUS_S = 1.0
"""For the operator to say it in the status: it writes once a second."""
_END_S = 10.0
"""For the agents of an ended job to end by themselves; they do at once."""


async def wait_pods_done(stack: LocalStack, view: RunView, signals: SignalWaiter) -> None:
    """After the job's end: wait for its agents' ends, stop what else there is, wait for the last status."""
    try:
        await signals.or_interrupted(view.until(lambda: not view.training_pods(), at_most_s=_END_S))
        await signals.or_interrupted(stack.kubelet.stop(_GRACE_S))
    except Interrupted:
        await stack.kubelet.stop(0.0)
    await view.until(lambda: not view.status.get("replicas"), at_most_s=_STATUS_S)


async def stop(stack: LocalStack, view: RunView, code: int) -> None:
    """Suspend the job and wait for that; `code` is the exit code if the time is over before it is done."""
    asyncio.get_running_loop().call_later(STOP_S - _MARGIN_S, kill_everything, code)
    stack.kubelet.close(_GRACE_S)
    metadata = objects.metadata(view.job)
    await stack.cluster.patch_spec(Resource.JOB, metadata["namespace"], metadata["name"], {"suspend": True})
    await view.until(lambda: not view.live_pods(), at_most_s=_GRACE_S + _MARGIN_S)
    await stack.kubelet.stop(0.0)
    await view.until(lambda: view.status.get("phase") == constants.Phase.SUSPENDED, at_most_s=_STATUS_S)
