"""Notice the end of a worker whose fork server hangs: that one reaps nothing, and reports no end."""

import asyncio
from collections.abc import Callable, Iterable

from elasticjob_agent.supervisor.child import Child
from elasticjob_agent.supervisor.forkserver_client import ForkServerClient
from elasticjob_agent.supervisor.hanging_fork_server import is_replaceable
from elasticjob_agent.supervisor.worker_end import read_end, wait_for_end

_REPORT_S = 0.25
"""Seconds that a fork server has for the report of an end before it is asked."""


def watch_end(
    client: ForkServerClient, child: Child, children: Callable[[], Iterable[Child]], *, hang_s: float
) -> None:
    """Begin to watch this child, until its end is reported.

    Args:
        client: of its fork server, which is killed if it hangs after the end of the child.
        child: it has started.
        children: returns all that the fork server has.
        hang_s: seconds that the fork server has for an answer.
    """
    watch = asyncio.create_task(_notice_end(client, child, children, hang_s=hang_s))
    child.exit.add_done_callback(lambda _: watch.cancel())


async def _notice_end(
    client: ForkServerClient, child: Child, children: Callable[[], Iterable[Child]], *, hang_s: float
) -> None:
    try:
        await wait_for_end(child.pid)
    except OSError:  # it has been reaped, or this process has no free descriptor
        return
    await asyncio.wait([child.exit], timeout=_REPORT_S)
    code = read_end(child.pid)
    if code and not child.is_stopping:
        child.unreported_code = code
    # The end of the fork server ends the others. So they may run on unless this one has failed.
    others = [each for each in children() if each is not child and read_end(each.pid) is None]
    if code or is_replaceable(others):
        await client.end_if_hanging(within_s=hang_s)
