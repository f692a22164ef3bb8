"""Log lines of a watch while the API server is unavailable."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any, cast

import pytest

from elasticjob_operator.cluster.kube import KubeCluster
from elasticjob_operator.errors import ClusterUnavailable
from elasticjob_operator.informers import reflector
from elasticjob_operator.informers.event_bus import EventBus
from elasticjob_operator.informers.reflector import Reflector
from elasticjob_operator.model.cluster_interface import Resource

ATTEMPTS = 30


class Away:
    """An API server that resets one connection and refuses the next, in turn."""

    namespaces = ("",)

    def __init__(self) -> None:
        self.attempts = 0
        self.enough = asyncio.Event()

    async def changes(self, *_: object) -> AsyncGenerator[tuple[str, Any]]:
        """Fail before the first event."""
        self.attempts += 1
        if self.attempts == ATTEMPTS:
            self.enough.set()
        if self.attempts:
            raise ClusterUnavailable("reset" if self.attempts % 2 else "refused")
        yield "CONNECTED", {}


async def test_an_outage_is_logged_once_for_each_kind_of_error(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(reflector, "_RETRY_DELAYS_S", (0.0,))
    feed, away = EventBus(), Away()
    feed.start(Resource.POD, {"": "1"})
    watching = asyncio.create_task(Reflector(cast("KubeCluster", away), feed, Resource.POD).run())
    await away.enough.wait()
    watching.cancel()
    await asyncio.wait({watching})
    assert [record.getMessage() for record in caplog.records] == [
        "cannot watch, trying again: reset",
        "cannot watch, trying again: refused",
    ]
