"""One process of bare members: the floor of `make bench-rendezvous`, as close as this stack can come.

It makes only the necessary trips to etcd for a join and a round (lease, transaction, watch; `ready`; the state), over
the same channels. It has no mirror, compares, leader, link or keep-alive. The parent writes the states. Orders as for
`members`:

    go        join all             {"joined": …}; {"round": 1, …} when all have received the state named active1
    (a state named forming2 is answered by each with `ready`: {"stopped": …}, and {"round": 2, …} at active2)
"""

import asyncio
import sys
from typing import Any

from benchmarks.rendezvous.members import LEASE_TTL_S, now_us, prepare, say, say_ended, serve
from elasticjob_api.keys import Keys
from elasticjob_etcd.channel import open_channel
from elasticjob_etcd.interface import Endpoint
from elasticjob_etcd.messages import prefix_range, rpc

_RECORD = b"x" * 250
"""A value as large as a node's record."""


class BareMembers:
    """`count` bare members."""

    def __init__(self, endpoint: Endpoint, prefix: str, first: int, count: int) -> None:
        self._endpoint, self._keys = endpoint, Keys(prefix)
        self._slots = range(first, first + count)
        self._tasks: list[asyncio.Task[None]] = []
        self._counts: dict[str, int] = {}

    def go(self) -> None:
        """Start them all."""
        self._tasks = [asyncio.create_task(self._live(slot)) for slot in self._slots]
        for task in self._tasks:
            task.add_done_callback(say_ended)

    async def _live(self, slot: int) -> None:
        channel = open_channel(self._endpoint)
        kv, ctl = rpc.KVStub(channel), prefix_range(self._keys.ctl)
        lease = await rpc.LeaseStub(channel).LeaseGrant(
            rpc.LeaseGrantRequest(TTL=int(LEASE_TTL_S) * 100), wait_for_ready=True
        )
        put = rpc.PutRequest(key=self._keys.node(slot, "0" * 8).encode(), value=_RECORD, lease=lease.ID)
        write = rpc.RequestOp(request_put=put)
        read = rpc.RequestOp(request_range=rpc.RangeRequest(**ctl))
        joined = await kv.Txn(rpc.TxnRequest(success=[write, read]))
        watch = rpc.WatchStub(channel).Watch()
        await watch.write(
            rpc.WatchRequest(create_request=rpc.WatchCreateRequest(start_revision=joined.header.revision + 1, **ctl))
        )
        await watch.read()
        self._note("joined")
        while True:
            for event in (await watch.read()).events:
                await self._saw(event.kv.value, kv, rpc.TxnRequest(success=[write]))

    async def _saw(self, state: bytes, kv: Any, ready: Any) -> None:
        name = state.partition(b" ")[0].decode()
        if name.startswith("forming"):
            await kv.Txn(ready)
            self._note("stopped")
        else:
            self._note(name)

    def _note(self, what: str) -> None:
        self._counts[what] = self._counts.get(what, 0) + 1
        if self._counts[what] < len(self._slots):
            return
        if what.startswith("active"):
            say(round=int(what.removeprefix("active")), at_us=now_us())
        else:
            say(**{what: now_us()})

    def orders(self) -> dict[str, Any]:
        """Return the orders of the parent."""
        return {"go": self.go}

    def faults(self) -> list[str]:
        """Return members that have ended; none should."""
        return [repr(task) for task in self._tasks if task.done()]


if __name__ == "__main__":
    asyncio.run(serve(BareMembers(*prepare(sys.argv[1:]))))
