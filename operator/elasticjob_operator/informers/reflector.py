"""The watch of all jobs, or of all pods: from the API server's own stream into the feed, one object at a time.

Each object is cut down to the fields that are read as soon as it has come. A list held whole, of ten thousand pods or a
few dozen very large jobs, would fill the operator's memory.

It ends for a CRD that is gone, and for no other fault of the API server. It begins again where it was, or, when that is
too old, from the beginning. Then it asks for a list, because deletions in between are not delivered.
"""

import asyncio
import contextlib
import logging
import time

from elasticjob_operator.cluster.api_errors import KindNotFound, ResourceExpired
from elasticjob_operator.cluster.kube import KubeCluster
from elasticjob_operator.cluster.log_limit import LogRateLimiter
from elasticjob_operator.errors import ClusterError, Forbidden, WatchStale
from elasticjob_operator.informers.event_bus import EventBus
from elasticjob_operator.model import objects
from elasticjob_operator.model.cluster_interface import Change, ObjectEvent, Resource

_RETRY_DELAYS_S = (0.2, 0.5, 1.0)
"""Before the next attempt, by how many have failed in a row; the last one holds."""
_FORBIDDEN_RETRY_DELAYS_S = (*_RETRY_DELAYS_S, 2.0, 5.0, 10.0)
"""Of a namespace that may not be watched: it may be gone for ever."""

log = logging.getLogger(__name__)


class Reflector:
    """The objects of this kind in the cluster's namespaces."""

    def __init__(self, cluster: KubeCluster, event_bus: EventBus, resource: Resource) -> None:
        self.resource = resource
        self._cluster = cluster
        self._event_bus = event_bus
        self._versions = dict.fromkeys(cluster.namespaces, "")
        """What a namespace has told last; empty if all it has is to be told, as after no list."""
        self._log_limit = LogRateLimiter(time.monotonic)

    async def run(self) -> None:
        """Watch until cancelled; from the first list of whoever follows."""
        self._versions.update(await self._event_bus.has_started(self.resource))
        async with asyncio.TaskGroup() as tasks:
            for namespace in self._cluster.namespaces:
                tasks.create_task(
                    self._list_and_watch(namespace), name=f"{self.resource.value} of {namespace or 'all namespaces'}"
                )

    async def _list_and_watch(self, namespace: str) -> None:
        failures = 0
        while True:
            try:
                await self._watch_stream(namespace)
                failures = 0
            except KindNotFound as error:
                gone = f"{self.resource.value} cannot be watched any more, which only a new start can cure"
                raise WatchStale(f"{gone}: {error}") from error
            except ClusterError as error:
                if isinstance(error, ResourceExpired):
                    self._versions[namespace] = ""
                elif self._log_limit.allow(str(error)):  # an API server that is away fails each attempt, one a second
                    log.warning("cannot watch, trying again: %s", error)
                pauses_s = _FORBIDDEN_RETRY_DELAYS_S if isinstance(error, Forbidden) else _RETRY_DELAYS_S
                await asyncio.sleep(pauses_s[min(failures, len(pauses_s) - 1)])
                failures += 1

    async def _watch_stream(self, namespace: str) -> None:
        """Follow one connection to its end, from what was told last."""
        version = self._versions[namespace]
        async with contextlib.aclosing(self._cluster.changes(self.resource, namespace, version)) as stream:
            async for kind, obj in stream:
                if kind == "CONNECTED":
                    if not version:
                        self._event_bus.mark_listed(self.resource)
                    continue
                # What is there at the beginning comes in no order: only from a bookmark on is it known what was told.
                if kind == "BOOKMARK" or self._versions[namespace]:
                    self._versions[namespace] = objects.version_of(obj)
                if kind != "BOOKMARK":
                    self._event_bus.publish(self.resource, ObjectEvent(Change[kind], obj))
