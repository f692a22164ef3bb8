"""The floor of an idle agent: gRPC's own client, which keeps one lease alive as often as an agent does.

`python -m benchmarks.recovery.idle_grpc_floor HOST:PORT` prints a line when the lease exists, and continues until it is
killed. Its channel has the agents' options; it contains no other part of the product's client.
"""

import asyncio
import sys

from elasticjob_etcd.channel import open_channel
from elasticjob_etcd.interface import Endpoint
from elasticjob_etcd.messages import rpc

TTL_S, PERIOD_S = 6, 2.0
"""As for an agent's lease."""


async def keep_alive(target: str) -> None:
    """Grant a lease, then send a request and read its answer each `PERIOD_S`, for ever."""
    async with open_channel(Endpoint((target,))) as channel:
        stub = rpc.LeaseStub(channel)
        lease = await stub.LeaseGrant(rpc.LeaseGrantRequest(TTL=TTL_S))
        stream = stub.LeaseKeepAlive()
        print("granted", flush=True)
        while True:
            await stream.write(rpc.LeaseKeepAliveRequest(ID=lease.ID))
            await stream.read()
            await asyncio.sleep(PERIOD_S)


if __name__ == "__main__":
    asyncio.run(keep_alive(sys.argv[1]))
