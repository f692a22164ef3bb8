"""The end of a run: wait for its pods, or stop them gracefully within a time limit.

To stop a job is to suspend it. The operator writes that to the rendezvous state, the agents stop their workers as for
a planned change, and the operator deletes the pods. Processes that are left after the grace are killed. After `STOP_S`
everything is killed, whatever is still running.
"""

import asyncio

from elasticjob_api import constants
from elasticjob_cli.local.run_view import RunView
from elasticjob_cli.local.signals import Interrupted, SignalWaiter, kill_everything
from elasticjob_cli.local.stack import LocalStack
from elasticjob_operator.model import objects
from elasticjob_operator.model.cluster_interface import Resource

STOP_S = 5.0
"""Seconds from the first signal until no process is left."""
_MARGIN_S = 0.2
_GRACE_S = 2.5
"""Seconds for the workers to end by themselves, out of STOP_S."""
_STATUS_S = 1.0
"""Seconds for the operator to update the status, which it writes once a second."""
_END_S = 10.0
"""Seconds for the agents of an ended job to end by themselves; usually they end at once."""


async def wait_pods_done(stack: LocalStack, view: RunView, signals: SignalWaiter) -> None:
    """After the end of the job, wait for the trainers, stop the other containers, and wait for the last status."""
    try:
        await signals.or_interrupted(view.until(lambda: not view.training_pods(), at_most_s=_END_S))
        await signals.or_interrupted(stack.kubelet.stop(_GRACE_S))
    except Interrupted:
        await stack.kubelet.stop(0.0)
    await view.until(lambda: not view.status.get("replicas"), at_most_s=_STATUS_S)


async def stop(stack: LocalStack, view: RunView, code: int) -> None:
    """Suspend the job and wait for its end; `code` is the exit code if the time limit is reached first."""
    asyncio.get_running_loop().call_later(STOP_S - _MARGIN_S, kill_everything, code)
    stack.kubelet.close(_GRACE_S)
    metadata = objects.metadata(view.job)
    await stack.cluster.patch_spec(Resource.JOB, metadata["namespace"], metadata["name"], {"suspend": True})
    await view.until(lambda: not view.live_pods(), at_most_s=_GRACE_S + _MARGIN_S)
    await stack.kubelet.stop(0.0)
    await view.until(lambda: view.status.get("phase") == constants.Phase.SUSPENDED, at_most_s=_STATUS_S)
