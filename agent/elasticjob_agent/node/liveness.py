"""TORCHELASTIC_HEALTH_CHECK_PORT: a port on which the agent answers over HTTP while its event loop turns.

For a kubelet's probe or the agent's parent. Without the variable nothing is imported, opened or started.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Mapping

from elasticjob_api.constants import ENV_HEALTH_CHECK_PORT

_HEARTBEAT_S = 1.0
_MAX_DELAY_S = 10.0
"""A loop that has not turned for so long hangs: nothing in it may take a tenth of that."""


@contextlib.asynccontextmanager
async def serving_liveness(environment: Mapping[str, str]) -> AsyncIterator[None]:
    """Answer while inside; a port that is taken is logged, and nothing is answered."""
    if not environment.get(ENV_HEALTH_CHECK_PORT):
        yield
        return
    from elasticjob_agent.server import health  # noqa: PLC0415  # an HTTP server that hardly any agent needs

    beat_s = time.monotonic()

    async def beat() -> None:
        nonlocal beat_s
        while True:
            beat_s = time.monotonic()
            await asyncio.sleep(_HEARTBEAT_S)

    server = health.start_from_environment(lambda: time.monotonic() - beat_s < _MAX_DELAY_S, environment)
    task = asyncio.create_task(beat(), name="liveness")
    try:
        yield
    finally:
        task.cancel()
        if server is not None:
            server.stop()
