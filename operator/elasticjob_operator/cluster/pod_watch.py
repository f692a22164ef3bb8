"""The watch of all pods: from the API server's own stream into the feed, one object at a time.

kopf holds a whole list in memory, and works a millisecond on each change; with ten thousand pods that is most of what
an operator costs. Here each object is cut down to what anybody reads as soon as it has come. Like kopf it never ends
for a fault of the API server: it begins again where it was, or, when that is too old, from the beginning, and then
asks for a list, because what was deleted in between is told by nobody.
"""

import asyncio
import contextlib
import logging
import time

from elasticjob_operator.cluster import objects
from elasticjob_operator.cluster.feed import Feed
from elasticjob_operator.cluster.kube import KubeCluster
from elasticjob_operator.cluster.log_limit import LogLimit
from elasticjob_operator.cluster.protocol import Change, ObjectEvent, Resource
from elasticjob_operator.cluster.refusals import TooOld
from elasticjob_operator.errors import ClusterError

_PAUSES_S = (0.2, 0.5, 1.0)
"""Before the next attempt, by how many have failed in a row; the last one holds."""

log = logging.getLogger(__name__)


class PodWatch:
    """The pods of all jobs in `namespaces` (none: everywhere)."""

    def __init__(self, cluster: KubeCluster, feed: Feed) -> None:
        self._cluster = cluster
        self._feed = feed
        self._versions: dict[str, str] = {}
        self._log_limit = LogLimit(time.monotonic)

    async def run(self) -> None:
        """Watch until cancelled; from the first list of whoever follows."""
        self._versions.update(await self._feed.begun(Resource.POD))
        async with asyncio.TaskGroup() as tasks:
            for namespace in self._cluster.namespaces:
                tasks.create_task(self._follow(namespace), name=f"pods of {namespace or 'all namespaces'}")

    async def _follow(self, namespace: str) -> None:
        failures = 0
        while True:
            try:
                await self._stream(namespace)
                failures = 0
            except ClusterError as error:
                if isinstance(error, TooOld):
                    self._versions[namespace] = ""
                elif self._log_limit.passes(str(error)):  # an API server that is away fails each attempt, one a second
                    log.warning("cannot watch, trying again: %s", error)
                await asyncio.sleep(_PAUSES_S[min(failures, len(_PAUSES_S) - 1)])
                failures += 1

    async def _stream(self, namespace: str) -> None:
        """Follow one connection to its end, from what was told last."""
        version = self._versions[namespace]
        async with contextlib.aclosing(self._cluster.changes(Resource.POD, namespace, version)) as stream:
            async for kind, obj in stream:
                if kind == "CONNECTED":
                    if not version:
                        self._feed.listed(Resource.POD)
                    continue
                # What is there at the beginning comes in no order: only from a bookmark on is it known what was told.
                if kind == "BOOKMARK" or self._versions[namespace]:
                    self._versions[namespace] = objects.version_of(obj)
                if kind != "BOOKMARK":
                    self._feed.put(Resource.POD, ObjectEvent(Change[kind], obj))
