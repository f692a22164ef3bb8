"""Trying again until it works, for what nothing can begin without: the API server, the CRD, permission to list.

Each new reason is logged once, and the same one again every minute: the log shows the fault, and is not full of it.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

from elasticjob_operator.errors import ClusterError

T = TypeVar("T")

RETRY_S = 1.0
LOG_AGAIN_S = 60.0

log = logging.getLogger(__name__)


async def retry_until_success(
    attempt: Callable[[], Awaitable[T]], *, description: str, retry_s: float = RETRY_S, log_again_s: float = LOG_AGAIN_S
) -> T:
    """The first result of `attempt` that is not a ClusterError; `description` is what cannot be done until then."""
    loop, said, say_again_at_s = asyncio.get_running_loop(), "", 0.0
    while True:
        try:
            result = await attempt()
        except ClusterError as error:
            if str(error) != said or loop.time() >= say_again_at_s:
                said, say_again_at_s = str(error), loop.time() + log_again_s
                log.warning("%s: %s; trying again", description, said)
            await asyncio.sleep(retry_s)
        else:
            if said:
                log.info("%s: it works now", description)
            return result
