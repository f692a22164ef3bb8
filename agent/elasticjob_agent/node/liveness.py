"""TORCHELASTIC_HEALTH_CHECK_PORT: a port on which the agent answers over HTTP while its event loop turns.

A kubelet's probe or the agent's parent reads it. Without the variable nothing is imported, opened or started.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Mapping

from elasticjob_api.constants import ENV_HEALTH_CHECK_PORT

_HEARTBEAT_S = 1.0
_MAX_DELAY_S = 10.0
"""Seconds without a turn after which the loop counts as hung; no step in it may take a tenth of that."""


@contextlib.asynccontextmanager
async def serving_liveness(environment: Mapping[str, str]) -> AsyncIterator[None]:
    """Answer on the port while inside; if the port is in use, a log line reports it and there is no answer."""
    if not environment.get(ENV_HEALTH_CHECK_PORT):
        yield
        return
    from elasticjob_agent.net import health  # noqa: PLC0415  # an HTTP server, which few agents need

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
