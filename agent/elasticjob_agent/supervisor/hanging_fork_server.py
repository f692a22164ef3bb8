"""When a fork server that does not answer is replaced: a stopped one starts, signals and reaps nothing any more.

An idle one is asked before each batch, and again after it. The workers of the batch wait at their latches until then.
So nothing of the batch has run when another fork server starts it. Later a worker may have begun, and the batch fails.
The fork server is then asked again and again while an answer of a worker is late: the worker itself may be what hangs.
"""

import asyncio
from collections.abc import Iterable, Sequence

from elasticjob_agent.supervisor.child import Child
from elasticjob_agent.supervisor.forkserver_client import ForkServerClient
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


async def wait_for_starts(client: ForkServerClient, begun: Sequence[Child], *, hang_s: float) -> None:
    """Wait for a while until these have started or failed; end a fork server that does not answer within `hang_s`."""
    loop = asyncio.get_running_loop()
    until_s = loop.time() + START_S
    late = {child.start for child in begun}
    while late and loop.time() < until_s:
        _, late = await asyncio.wait(late, timeout=_LATE_S)
        if late and await client.end_if_hanging(within_s=hang_s):
            return
