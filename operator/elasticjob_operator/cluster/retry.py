"""Trying again until it works, for what nothing can begin without: the API server, the CRD, permission to list.

Each new reason is logged once, and the same one again every minute: the log shows the fault, and is not full of it.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

from elasticjob_operator.errors import ClusterError

T = TypeVar("T")

PAUSE_S = 1.0
SAY_AGAIN_S = 60.0

log = logging.getLogger(__name__)


async def until_it_works(
    attempt: Callable[[], Awaitable[T]], *, what: str, pause_s: float = PAUSE_S, say_again_s: float = SAY_AGAIN_S
) -> T:
    """The first result of `attempt` that is not a ClusterError; `what` is what cannot be done until then."""
    loop, said, say_again_at_s = asyncio.get_running_loop(), "", 0.0
    while True:
        try:
            result = await attempt()
        except ClusterError as error:
            if str(error) != said or loop.time() >= say_again_at_s:
                said, say_again_at_s = str(error), loop.time() + say_again_s
                log.warning("%s: %s; trying again", what, said)
            await asyncio.sleep(pause_s)
        else:
            if said:
                log.info("%s: it works now", what)
            return result
