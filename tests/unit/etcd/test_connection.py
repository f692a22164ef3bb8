"""The calls that end with a channel; no server listens where these dial."""

import asyncio
from typing import Any

import pytest

from elasticjob_etcd.connection import Connection
from elasticjob_etcd.errors import Unavailable
from elasticjob_etcd.interface import Endpoint
from elasticjob_etcd.messages import rpc

NOBODY = Endpoint(("127.0.0.1:1",))


async def a_stream_in_waiting(connection: Connection) -> "asyncio.Task[Any]":
    """It waits for etcd, and its first message for it."""
    stream = connection.open_stream(connection.watch.Watch, tried="a watch", wait_for_ready=True)
    sending = asyncio.create_task(stream.send(rpc.WatchRequest()))
    for _ in range(10):
        await asyncio.sleep(0)
    return sending


async def test_a_stream_that_waits_for_etcd_ends_when_its_channel_is_closed() -> None:
    connection = Connection(NOBODY)
    sending = await a_stream_in_waiting(connection)
    await connection.close()
    with pytest.raises(Unavailable):
        async with asyncio.timeout(20):
            await sending
