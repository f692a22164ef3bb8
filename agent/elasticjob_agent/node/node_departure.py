"""The departure of one node: its keeper serves what it has, until no other node needs that or its time is over."""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from elasticjob_agent.keep.client import KeeperClient
from elasticjob_agent.keep.keeper.errors import KeeperError
from elasticjob_agent.node import keep_requests
from elasticjob_agent.node.keeper_lister import KeeperLister
from elasticjob_api.errors import RecordError
from elasticjob_api.rendezvous_state import Member, RendezvousState
from elasticjob_etcd.errors import EtcdError

_CLOSES_S = 5.0
"""Seconds after which a round that still forms may lack nodes: with enough of them, it closes sooner."""

Spawn = Callable[[Coroutine[Any, Any, None]], "asyncio.Task[None]"]
Join = Callable[[RendezvousState], Awaitable[None]]
"""Lets the keeper know its identity in a state; raises RecordError or KeeperError."""

log = logging.getLogger(__name__)


class NodeDepartureWait:
    """The time in which a node that leaves serves what it has."""

    def __init__(
        self,
        keeper: KeeperClient,
        lister: KeeperLister,
        *,
        join: Join,
        within_s: float,
        look_s: float,
        on_end: Callable[[], None],
        spawn: Spawn,
    ) -> None:
        """Begin, for `within_s` at most. Look each `look_s` whether any node stays that could need the steps.

        `on_end` is called at the end, and when the departure `is_late`.
        """
        self._keeper = keeper
        self._lister = lister
        self._join = join
        self._clock = asyncio.get_running_loop().time
        self._began_s = self._clock()
        self._until_s = self._began_s + within_s
        self._late = asyncio.get_running_loop().call_later(_CLOSES_S, on_end)
        self._look_s = look_s
        self._on_end = on_end
        self._spawn = spawn
        self._nonce: str | None = None
        """That of the state in which the keeper serves."""
        self._serving: asyncio.Task[None] | None = None
        self._looking: asyncio.Task[None] | None = None
        self.is_over = False
        self.is_last = False
        """Whether no other node stays."""

    @property
    def is_late(self) -> bool:
        """Whether a round that forms since the begin of the departure should have closed by now."""
        return self._clock() >= self._began_s + _CLOSES_S

    @property
    def left_s(self) -> float:
        """The seconds until the end of the departure."""
        return self._until_s - self._clock()

    def observe(self, state: RendezvousState, me: Member | None) -> None:
        """Serve what this state may need."""
        if self.is_over or self._nonce == state.nonce:
            return
        self._nonce = state.nonce
        _cancel(self._serving)
        if self._looking is None and me is not None:
            self._looking = self._spawn(self._look_for_others(me))
        self._serving = self._spawn(self._serve(state))

    def stop(self) -> None:
        """Serve other nodes no longer."""
        if not self.is_over:
            self.is_over = True
            self._late.cancel()
            _cancel(self._serving)
            _cancel(self._looking)
            self._on_end()

    async def _serve(self, state: RendezvousState) -> None:
        try:
            await self._join(state)
            is_drained = await self._keeper.linger(keep_requests.linger_request(state, max(0.0, self.left_s)))
            log.info("this node leaves: %s", "no other node needs its steps" if is_drained else "its time is over")
        except (RecordError, KeeperError, EtcdError, TimeoutError) as error:
            log.warning("this node leaves without serving its steps to others: %s", error)
        self._serving = None  # it has ended by itself
        self.stop()

    async def _look_for_others(self, me: Member) -> None:
        """End the departure when no node stays that could need this one."""
        while not self.is_over:
            with contextlib.suppress(EtcdError):
                if not await self._lister.count_others(me):
                    self._looking = None
                    self.is_last = True
                    self.stop()
                    return
            await asyncio.sleep(self._look_s)


def _cancel(task: "asyncio.Task[None] | None") -> None:
    if task is not None:
        task.cancel()
