"""Handlers of one job over an in-memory etcd, each driven from the test's own thread."""

import asyncio
import concurrent.futures
import contextlib
import itertools
import selectors
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any, TypeVar

from elasticjob_agent.rendezvous.handler import EtcdRendezvousHandler, HandlerDeps
from elasticjob_agent.rendezvous.interface import RendezvousInfo
from elasticjob_agent.rendezvous.job_rendezvous import NodeInfo
from elasticjob_agent.rendezvous.member.join import NodeIdentity
from elasticjob_agent.tracing import Tracer
from elasticjob_api.keys import Keys
from elasticjob_api.records import SpecRecord
from elasticjob_etcd.interface import Etcd
from elasticjob_etcd.memory.client import InMemoryEtcd, InMemoryStore
from testing.waiting import aeventually

T = TypeVar("T")


class LoopThread:
    """An event loop in its own thread."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self.loop = asyncio.SelectorEventLoop(self._selector)
        self._thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self._thread.start()

    def submit(self, coroutine: Coroutine[Any, Any, T]) -> "concurrent.futures.Future[T]":
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop)

    def close(self) -> None:
        self.submit(self._cancel_all()).result(20)
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(20)
        self.loop.close()

    async def _cancel_all(self) -> None:
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        # Transports close their sockets some turns after they were closed; the loop's own descriptor remains.
        await aeventually(lambda: len(self._selector.get_map()) <= 1, within_s=20, what="no sockets")


class Port:
    """Numbers in place of sockets."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.held = False

    def acquire(self) -> int:
        self.number += 1
        self.held = True
        return self.number

    def release(self) -> None:
        self.held = False


class Job:
    """A job with its handlers."""

    def __init__(self, low: int, high: int, *, max_restarts: int = 3) -> None:
        self.loop = LoopThread()
        self.store = self.loop.submit(self._make_store()).result(20)
        self.spec = SpecRecord(
            min=low, max=high, desired=high, max_restarts=max_restarts, last_call_timeout_s=1.0, scale_up_delay_s=0
        )
        self._numbers = itertools.count(1)
        self.handlers: list[EtcdRendezvousHandler] = []
        self.pool = concurrent.futures.ThreadPoolExecutor(8)

    async def _make_store(self) -> InMemoryStore:
        return InMemoryStore()

    def handler(self, *, nproc: int = 2, role: str = "default", join_timeout_s: float = 20.0) -> EtcdRendezvousHandler:
        """Return the handler of one more node."""
        bare = self.bare_handler(join_timeout_s=join_timeout_s)
        bare.offer(NodeInfo(role=role, local_world_size=nproc, max_restarts=self.spec.max_restarts), lambda: None)
        return bare

    def bare_handler(self, *, join_timeout_s: float = 20.0) -> EtcdRendezvousHandler:
        """Return the handler of one more node, without an offer."""
        number = next(self._numbers)
        draws = itertools.count(number << 16)
        made = EtcdRendezvousHandler(
            HandlerDeps(
                loop=self.loop,
                connect=self._connect,
                make_identity=lambda node: self._identity(number, node),
                port=Port(20000 + 1000 * number),
                run_id="run",
                clock=time.monotonic,
                wall_ns=time.time_ns,
                random_hex=lambda: f"{next(draws):08x}",
                trace=Tracer(None, ""),
                join_timeout_s=join_timeout_s,
            )
        )
        self.handlers.append(made)
        return made

    def _identity(self, number: int, node: NodeInfo) -> NodeIdentity:
        return NodeIdentity(
            keys=Keys("/test/handlers"),
            pod=f"pod-{number}",
            pod_uid=f"uid-{number}",
            host=f"host-{number}",
            address="127.0.0.1",
            nproc=node.local_world_size,
            role=node.role,
            own_spec=self.spec,
        )

    @contextlib.asynccontextmanager
    async def _connect(self) -> AsyncIterator[Etcd]:
        client = InMemoryEtcd(self.store)
        try:
            yield client
        finally:
            await client.close()

    def meet(self, *handlers: EtcdRendezvousHandler) -> list[RendezvousInfo]:
        """Call next_rendezvous of all handlers at once, and return the results."""
        return [ask.result(30) for ask in self.ask(*handlers)]

    def ask(self, *handlers: EtcdRendezvousHandler) -> "list[concurrent.futures.Future[RendezvousInfo]]":
        """Call next_rendezvous of all handlers at once."""
        return [self.pool.submit(handler.next_rendezvous) for handler in handlers]

    def all(self, call: Callable[[EtcdRendezvousHandler], T]) -> list[T]:
        """Call a function with each handler."""
        return [call(handler) for handler in self.handlers]

    def close(self) -> None:
        list(self.pool.map(lambda handler: handler.shutdown(), self.handlers))
        self.pool.shutdown()
        self.loop.close()
