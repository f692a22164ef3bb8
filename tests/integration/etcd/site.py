"""A place where an etcd of a test's own runs, to be killed, stopped, wiped or restored under its clients.

It is the one that the chart names. A single etcd of pip's version may send events or answers before it has written.
If it is killed in between, it returns without the changes that it has sent; no test may expect an order then.
"""

import asyncio
import contextlib
import os
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from elasticjob_etcd.client import EtcdClient
from elasticjob_etcd.embedded import EmbeddedEtcd
from elasticjob_etcd.errors import Unavailable
from elasticjob_etcd.interface import Etcd, Put, Txn
from testing.servers.secured_etcd import program
from testing.waiting import eventually


class EtcdSite:
    """A folder, and the etcd that runs in it now; it always comes back at the same port."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.server: EmbeddedEtcd

    async def start(self, data: str = "one", *, port: int | None = None) -> EmbeddedEtcd:
        port = self.server.port if port is None else port
        self.server = await EmbeddedEtcd.start(self.folder / data, client_port=port, binary=program())
        return self.server

    def client(self, timeout_s: float = 1.0) -> EtcdClient:
        return EtcdClient(replace(self.server.endpoint, timeout_s=timeout_s), rng=lambda: 0.0)

    @contextlib.contextmanager
    def stalled(self) -> Iterator[None]:
        os.kill(self.server.pid, signal.SIGSTOP)
        eventually(self._is_suspended, what="standstill of etcd")
        try:
            yield
        finally:
            os.kill(self.server.pid, signal.SIGCONT)

    def _is_suspended(self) -> bool:
        stats = [(task / "stat").read_text() for task in Path(f"/proc/{self.server.pid}/task").iterdir()]
        return all(stat.rpartition(")")[2].split()[0] == "T" for stat in stats)


async def put(etcd: Etcd, key: str) -> int:
    return (await etcd.txn(Txn((), (Put(key, b""),)))).revision


async def answers(etcd: Etcd) -> None:
    """Wait until etcd answers again."""
    async with asyncio.timeout(60):
        while True:
            with contextlib.suppress(Unavailable):
                await etcd.get("anything")
                return
            await asyncio.sleep(0.01)
