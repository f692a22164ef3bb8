"""The election of the closer: campaign when there is none, and close rounds while the key names this agent.

Slot 0 campaigns at once, others a little later (0.3 s when the job begins) and one after the other. So of a thousand
agents a few try, whichever slot is the lowest. A node is the closer if and only if the key names its incarnation, as
seen through the watch; never by its transaction's answer.
"""

import asyncio
import contextlib
import functools
import logging
from collections.abc import Callable

from elasticjob_agent.rendezvous.leader.campaign import Standing
from elasticjob_agent.rendezvous.leader.round_leader import ClosingLoop
from elasticjob_agent.rendezvous.protocol.restart_budget import ChargeClock
from elasticjob_agent.rendezvous.protocol.transactions import Identity
from elasticjob_agent.tracing import Trace
from elasticjob_api.errors import RecordError
from elasticjob_api.rendezvous_state import Closer, Member, World, decode_closer
from elasticjob_etcd.errors import EtcdError
from elasticjob_etcd.interface import Etcd, KeyValue

FIRST_S = 0.3
"""For slot 0 to come, when no closer has been seen yet: then the next slot campaigns, and each a little later."""
FIRST_APART_S = 0.01
APART_S = 0.002
"""When a closer's key was deleted: everybody is there, and the next closer's key is seen within milliseconds."""
LONGEST_S = 2.0
_RETRY_S = 0.5

log = logging.getLogger(__name__)


class Election:
    """One node's campaign for closer; fed with every change of the closer's key."""

    def __init__(
        self,
        *,
        etcd: Etcd,
        clock: Callable[[], float],
        nonce: Callable[[], str],
        trace: Trace,
        wake: Callable[[], None],
    ) -> None:
        """`wake` asks for an `update`: the closing loop has failed.

        `link`, to be set before the first `update`, is where members find this node's listener. Nothing is opened or
        closed before `quiet_until_s`.
        """
        self.link = ""
        self.quiet_until_s = 0.0
        self.shaken_until: Callable[[], float] = lambda: 0.0
        self._etcd = etcd
        self._clock = clock
        self._nonce = nonce
        self._trace = trace
        self._wake = wake
        self._charges = ChargeClock()
        self._is_new = True
        """No world was seen."""
        self._last: Member | None = None
        """The last closer that this node has seen; None before the first."""
        self._turn: asyncio.TimerHandle | None = None
        """When this node will campaign, unless another is elected before."""
        self._standing: asyncio.Task[None] | None = None
        self._closing: asyncio.Task[None] | None = None
        self._closing_as: Identity | None = None
        self._loop: ClosingLoop | None = None

    @property
    def is_closer(self) -> bool:
        """This node closes rounds now."""
        return self._closing is not None

    async def update(self, me: Identity, closer: KeyValue | None, *, may_stand: bool) -> None:
        """Take in the closer's key as the watch shows it."""
        elected, predecessor = closer_in(closer), self._last
        if elected is not None:
            self._last = elected.member
            await self._stand_no_more()
        if elected is not None and elected.member == me.member and closer is not None and closer.lease == me.lease:
            await self._serve(me, predecessor)
            return
        await self._stand_down()
        if closer is None and may_stand and self._turn is None and (self._standing is None or self._standing.done()):
            # A timer: of a thousand agents nearly all see another elected before it is their turn.
            wait_s = turn_s(me.member.slot, is_first=self._last is None)
            self._turn = asyncio.get_running_loop().call_later(wait_s, self._begin_to_stand, me)

    def note(self, world: World) -> None:
        """Take in every world that this node sees: a closer must know how long ago failures were charged."""
        self._is_new = False
        self._charges.note(world.charges, self._clock())

    async def _serve(self, me: Identity, predecessor: Member | None) -> None:
        if self._closing is not None and self._closing_as == me:
            if self._closing.done():
                self._closing.result()  # a fault of ours ends the agent, it is never swallowed
            return
        await self._stand_down()
        self._closing_as = me
        self._loop = ClosingLoop(
            etcd=self._etcd,
            me=me,
            clock=self._clock,
            nonce=self._nonce,
            trace=self._trace,
            charges=self._charges,
            quiet_until_s=self.quiet_until_s,
            shaken_until=self.shaken_until,
            predecessor=predecessor,
        )
        self._closing = asyncio.create_task(self._loop.run(), name="closer")
        self._closing.add_done_callback(lambda _: self._wake())

    def _begin_to_stand(self, me: Identity) -> None:
        self._turn = None
        self._standing = asyncio.create_task(self._stand(me), name="stand for closer")

    async def _stand_no_more(self) -> None:
        if self._turn is not None:
            self._turn.cancel()
            self._turn = None
        await _cancel(self._standing)
        self._standing = None

    async def _stand(self, me: Identity) -> None:
        standing = Standing(self._etcd, me, self.link, self._nonce)
        while True:
            try:
                opened = await standing.stand(is_new=self._is_new and not self.quiet_until_s)
            except EtcdError as error:
                log.warning("could not campaign for closer, trying again: %s", error)
                await asyncio.sleep(_RETRY_S)
            else:
                if opened is not None:
                    self._trace.point(f"closer wrote {opened.state.value}", opened.round)
                return

    async def _stand_down(self) -> None:
        await _cancel(self._closing)
        self._closing = self._closing_as = self._loop = None

    async def close(self) -> None:
        """Stop campaigning and closing; idempotent."""
        await self._stand_no_more()
        await self._stand_down()


def turn_s(slot: int, *, is_first: bool) -> float:
    """Return how long this slot leaves the campaign to lower ones, in seconds."""
    if is_first:
        return min(FIRST_S + slot * FIRST_APART_S, LONGEST_S) if slot else 0.0
    return min(slot * APART_S, LONGEST_S)


def closer_in(kv: KeyValue | None) -> Closer | None:
    """The closer's record; None without one, and for one that cannot be read."""
    try:
        return None if kv is None else _decoded(kv.value)
    except RecordError as error:
        log.warning("ignored the closer record: %s", error)
        return None


_decoded = functools.lru_cache(maxsize=4)(decode_closer)
"""Kept: it is looked at after every change of anything."""


async def _cancel(task: "asyncio.Task[None] | None") -> None:
    if task is None:
        return
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
