"""Retries until success, for requirements of the start: the API server, the CRD, permission to list.

Each new error is logged at once, and a repeated one again every minute.
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
    """Return the first result of `attempt` that is not a ClusterError.

    `description` begins each log line: the request that fails until then.
    """
    loop, logged, log_again_at_s = asyncio.get_running_loop(), "", 0.0
    while True:
        try:
            result = await attempt()
        except ClusterError as error:
            if str(error) != logged or loop.time() >= log_again_at_s:
                logged, log_again_at_s = str(error), loop.time() + log_again_s
                log.warning("%s: %s; trying again", description, logged)
            await asyncio.sleep(retry_s)
        else:
            if logged:
                log.info("%s: it works now", description)
            return result
