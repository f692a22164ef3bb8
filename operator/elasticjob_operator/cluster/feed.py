"""From kopf's handlers to the operator's watches: each change of an object, in order, to whoever follows its kind.

Handlers must return at once and must not fail, so a feed never blocks and never refuses. What arrives before
anybody follows is dropped: a follower begins with a list of its own, made after it has subscribed.
"""

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import Iterator

from elasticjob_operator.cluster.protocol import ObjectEvent, Resource


class Feed:
    """Changes by kind; for one event loop."""

    def __init__(self) -> None:
        self._queues: dict[Resource, list[asyncio.Queue[ObjectEvent]]] = defaultdict(list)

    def put(self, resource: Resource, event: ObjectEvent) -> None:
        """Hand a change to all followers."""
        for queue in self._queues[resource]:
            queue.put_nowait(event)

    @contextlib.contextmanager
    def subscribed(self, resource: Resource) -> Iterator["asyncio.Queue[ObjectEvent]"]:
        """A queue that gets every change from now on."""
        queue: asyncio.Queue[ObjectEvent] = asyncio.Queue()
        self._queues[resource].append(queue)
        try:
            yield queue
        finally:
            self._queues[resource].remove(queue)
