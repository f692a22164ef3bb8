"""When a fork server that does not answer is replaced: a stopped one starts, signals and reaps nothing any more.

An idle one is asked before each batch, and again after it. The workers of the batch wait at their latches until then.
So nothing of the batch has run when another fork server starts it. Later a worker may have begun, and the batch fails.
The fork server is then asked again and again while an answer of a worker is late: the worker itself may be what hangs.

While workers run, it is asked when one of them ends (end_watch.py), and when they are to be stopped.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence

from elasticjob_agent.supervisor.answer_time import AnswerMeter, read_sample
from elasticjob_agent.supervisor.child import Child
from elasticjob_agent.supervisor.forkserver_client import ForkServerClient
from elasticjob_agent.supervisor.launchers import Launcher
from elasticjob_agent.supervisor.preforked import START_S

ANSWER_S = 1.5
"""Seconds for an idle fork server to answer, and for one that has passed commands on to preforked workers."""
_LATE_S = 0.25
"""Seconds without the answer of a worker, after which the fork server is asked."""


def is_replaceable(children: Iterable[Child]) -> bool:
    """Return whether the end of a fork server with these children ends no worker that runs."""
    return all(child.ended or child.wedged or child.is_zygote for child in children)


async def end_hanging(client: ForkServerClient, children: Iterable[Child], *, within_s: float) -> bool:
    """Kill a fork server that does not answer, unless one of its `children` runs; return whether it was killed."""
    return is_replaceable(children) and await client.end_if_hanging(within_s=within_s)


async def wait_for_all(
    client: ForkServerClient, begun: Sequence[Child], *, others: Iterable[Child], launcher: Launcher
) -> None:
    """Return when all of these have started; end a fork server that does not answer meanwhile.

    Args:
        client: of the fork server.
        begun: the workers of the batch; one may take long, for example for an exec from a slow disk.
        others: the other workers of the fork server.
        launcher: has the seconds for its answer.

    Raises:
        StartError: of the first one that has not started, when all answers are there.
    """
    hang_s = launcher.batch_s if is_replaceable(others) else launcher.start_s
    while await wait_for_starts(client, dict.fromkeys(begun, 0), hang_s=hang_s):
        continue
    if first := next(filter(None, (child.start.result() for child in begun)), None):
        raise first


async def wait_for_starts(
    client: ForkServerClient, begun: Mapping[Child, int], *, hang_s: float
) -> Mapping[Child, AnswerMeter]:
    """Wait for a while until these have started or failed; return those that have not, with the time that they had.

    It ends a fork server that does not answer within `hang_s`.

    Args:
        client: of the fork server.
        begun: each child with its pid; 0: it is not known yet.
        hang_s: seconds that the fork server has for an answer.
    """
    meters = {child: AnswerMeter(read_sample(pid), within_s=START_S) for child, pid in begun.items()}
    is_over = False
    while meters and not is_over:
        await asyncio.wait([child.start for child in meters], timeout=_LATE_S)
        is_over = all(child.start.done() for child in meters) or await client.end_if_hanging(within_s=hang_s)
        meters = {child: meter for child, meter in meters.items() if not child.start.done()}
        left_s = [meter.left_s(read_sample(begun[child])) for child, meter in meters.items()]
        is_over = is_over or max(left_s, default=0.0) <= 0
    return meters
