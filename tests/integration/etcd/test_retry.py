"""The one error after which a call is sent again, against a gRPC server that raises it on purpose.

A real etcd raises it when users change between its check of a request and the request's turn: too rare to wait for.
"""

from collections.abc import AsyncIterator
from typing import Any

import grpc.aio
import pytest

from elasticjob_etcd.client import EtcdClient
from elasticjob_etcd.errors import Unavailable
from elasticjob_etcd.interface import Endpoint
from elasticjob_etcd.messages import rpc

STALE = (grpc.StatusCode.UNKNOWN, "auth: revision in header is old")
DENIED = (grpc.StatusCode.PERMISSION_DENIED, "etcdserver: permission denied")


class Scripted(rpc.KVServicer):  # type: ignore[misc]
    """Fails as many reads as `failures`, then answers."""

    def __init__(self) -> None:
        self.failures: list[tuple[grpc.StatusCode, str]] = []
        self.asked = 0

    async def Range(self, _: Any, context: Any) -> Any:  # noqa: N802  # the name is etcd's
        self.asked += 1
        if self.failures:
            await context.abort(*self.failures.pop(0))
        return rpc.RangeResponse(header=rpc.ResponseHeader(cluster_id=1, revision=1))


@pytest.fixture
async def scripted() -> AsyncIterator[tuple[Scripted, EtcdClient]]:
    servicer, server = Scripted(), grpc.aio.server()
    rpc.add_KVServicer_to_server(servicer, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    client = EtcdClient(Endpoint((f"127.0.0.1:{port}",)))
    yield servicer, client
    await client.close()
    await server.stop(None)


async def test_a_call_judged_by_outdated_users_is_sent_once_more(scripted: tuple[Scripted, EtcdClient]) -> None:
    servicer, client = scripted
    servicer.failures = [STALE]
    assert await client.get("a") is None
    assert servicer.asked == 2


async def test_it_is_not_sent_a_third_time(scripted: tuple[Scripted, EtcdClient]) -> None:
    servicer, client = scripted
    servicer.failures = [STALE, STALE]
    with pytest.raises(Unavailable, match="auth: revision in header is old"):
        await client.get("a")
    assert servicer.asked == 2


async def test_no_other_error_is_answered_by_a_repetition(scripted: tuple[Scripted, EtcdClient]) -> None:
    servicer, client = scripted
    servicer.failures = [DENIED]
    with pytest.raises(Unavailable, match="permission denied"):
        await client.get("a")
    assert servicer.asked == 1
