"""The watch of all jobs, or of all pods: from the API server's stream to the event bus, one object at a time.

Each object is reduced to the needed fields as soon as it arrives. A whole list of ten thousand pods, or of a few dozen
very large jobs, would fill the operator's memory.

The watch fails if the CRD was deleted. After any other error it continues at the last version, or from the beginning if
that version has expired. In the latter case it requests a list, because earlier deletions are not delivered.
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
"""Delay before the next attempt, by the number of consecutive failures; the last one repeats."""
_FORBIDDEN_RETRY_DELAYS_S = (*_RETRY_DELAYS_S, 2.0, 5.0, 10.0)
"""The same for a namespace that the operator may not watch; it may be deleted for ever."""

log = logging.getLogger(__name__)


class Reflector:
    """The watch of one kind of object in the cluster's namespaces."""

    def __init__(self, cluster: KubeCluster, event_bus: EventBus, resource: Resource) -> None:
        self.resource = resource
        self._cluster = cluster
        self._event_bus = event_bus
        self._versions = dict.fromkeys(cluster.namespaces, "")
        """The last delivered version of each namespace; empty if the watch begins with all objects."""
        self._log_limit = LogRateLimiter(time.monotonic)

    async def run(self) -> None:
        """Watch until cancelled, beginning at the first list of a subscriber.

        Raises:
            WatchStale: the CRD was deleted.
        """
        self._versions.update(await self._event_bus.wait_started(self.resource))
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
                stale = f"{self.resource.value} cannot be watched any more, so the operator must restart"
                raise WatchStale(f"{stale}: {error}") from error
            except ClusterError as error:
                if isinstance(error, ResourceExpired):
                    self._versions[namespace] = ""
                elif self._log_limit.allow(str(error)):  # during an outage an attempt fails each second
                    log.warning("cannot watch, trying again: %s", error)
                pauses_s = _FORBIDDEN_RETRY_DELAYS_S if isinstance(error, Forbidden) else _RETRY_DELAYS_S
                await asyncio.sleep(pauses_s[min(failures, len(pauses_s) - 1)])
                failures += 1

    async def _watch_stream(self, namespace: str) -> None:
        """Publish the changes of one connection until it ends, beginning at the last delivered version."""
        version = self._versions[namespace]
        async with contextlib.aclosing(self._cluster.changes(self.resource, namespace, version)) as stream:
            async for kind, obj in stream:
                if kind == "CONNECTED":
                    if not version:
                        self._event_bus.mark_listed(self.resource)
                    continue
                # Initial objects arrive in no order: before the first bookmark no version marks a position.
                if kind == "BOOKMARK" or self._versions[namespace]:
                    self._versions[namespace] = objects.version_of(obj)
                if kind != "BOOKMARK":
                    self._event_bus.publish(self.resource, ObjectEvent(Change[kind], obj))
