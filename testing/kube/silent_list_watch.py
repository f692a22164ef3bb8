"""Lists of a real API server, beside watches that deliver nothing."""

import asyncio
from collections.abc import AsyncGenerator

from elasticjob_operator.cluster.list_watch import ListWatch
from elasticjob_operator.model.cluster_interface import Object, Resource


class SilentListWatch(ListWatch):
    """Watches that connect, and then deliver no event."""

    async def watch(
        self, _resource: Resource, _namespace: str, _version: str
    ) -> AsyncGenerator[tuple[str, Object], None]:
        """Return CONNECTED, and nothing else."""
        yield "CONNECTED", {}
        await asyncio.Event().wait()
