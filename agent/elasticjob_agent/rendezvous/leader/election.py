"""The election of the leader: campaign when there is none, and lead while the leader key names this agent.

Slot 0 campaigns at once, the others one after the other (from 0.3 s on when the job begins). So of a thousand agents
only a few campaign, whichever slot is the lowest. A node is the leader if and only if the watch shows the key with its
incarnation. The answer to its transaction never counts.
"""

import asyncio
import contextlib
import functools
import logging
from collections.abc import Callable

from elasticjob_agent.rendezvous.leader.campaign import Campaign
from elasticjob_agent.rendezvous.leader.round_leader import RoundLeader
from elasticjob_agent.rendezvous.protocol.restart_budget import FailureAgeClock
from elasticjob_agent.rendezvous.protocol.transactions import SessionIdentity
from elasticjob_agent.tracing import Tracer
from elasticjob_api.errors import RecordError
from elasticjob_api.rendezvous_state import Leader, Member, RendezvousState, decode_leader
from elasticjob_api.trace_points import LEADER_WROTE
from elasticjob_etcd.errors import EtcdError
from elasticjob_etcd.interface import Etcd, KeyValue

FIRST_CAMPAIGN_S = 0.3
"""Seconds that slot 0 has to start while no leader was seen; then the next slot campaigns, and each a little later."""
FIRST_CAMPAIGN_SPREAD_S = 0.01
CAMPAIGN_SPREAD_S = 0.002
"""Seconds between slots after a leader key was deleted: all agents run, and a new key is seen within milliseconds."""
MAX_CAMPAIGN_DELAY_S = 2.0
_RETRY_S = 0.5

log = logging.getLogger(__name__)


class Election:
    """One node's part in the election; it gets each change of the leader key."""

    def __init__(
        self,
        *,
        etcd: Etcd,
        clock: Callable[[], float],
        random_hex: Callable[[], str],
        trace: Tracer,
        wake: Callable[[], None],
    ) -> None:
        """`wake` requests an `update`: the leader's loop has failed.

        `link` is the address of this node's listener, to be set before the first `update`. No round is opened or closed
        before `settle_until_s`.
        """
        self.link = ""
        self.settle_until_s = 0.0
        self.lease_doubt_until: Callable[[], float] = lambda: 0.0
        self._etcd = etcd
        self._clock = clock
        self._random_hex = random_hex
        self._trace = trace
        self._wake = wake
        self._failure_ages = FailureAgeClock()
        self._is_new = True
        """Whether no rendezvous state was seen."""
        self._last: Member | None = None
        """The last leader that this node has seen; None before the first."""
        self._delay: asyncio.TimerHandle | None = None
        """The time of this node's campaign, unless another is elected before."""
        self._campaign_task: asyncio.Task[None] | None = None
        self._leading_task: asyncio.Task[None] | None = None
        self._leading_as: SessionIdentity | None = None
        self._round_leader: RoundLeader | None = None

    @property
    def is_leader(self) -> bool:
        """Whether this node leads now."""
        return self._leading_task is not None

    async def update(self, me: SessionIdentity, leader: KeyValue | None, *, may_campaign: bool) -> None:
        """Take in the leader key as the watch shows it."""
        elected, predecessor = leader_in(leader), self._last
        if elected is not None:
            self._last = elected.member
            await self._cancel_campaign()
        if elected is not None and elected.member == me.member and leader is not None and leader.lease == me.lease:
            await self._lead(me, predecessor)
            return
        await self._resign()
        if (
            leader is None
            and may_campaign
            and self._delay is None
            and (self._campaign_task is None or self._campaign_task.done())
        ):
            # A timer: of a thousand agents nearly all see another elected before their time.
            wait_s = campaign_delay_s(me.member.slot, is_first=self._last is None)
            self._delay = asyncio.get_running_loop().call_later(wait_s, self._start_campaign, me)

    def observe(self, state: RendezvousState) -> None:
        """Take in each rendezvous state: a leader must know how long ago failures were charged."""
        self._is_new = False
        self._failure_ages.record(state.charged_failures, self._clock())

    async def _lead(self, me: SessionIdentity, predecessor: Member | None) -> None:
        if self._leading_task is not None and self._leading_as == me:
            if self._leading_task.done():
                self._leading_task.result()  # a fault of ours ends the agent: it is never ignored
            return
        await self._resign()
        self._leading_as = me
        self._round_leader = RoundLeader(
            etcd=self._etcd,
            me=me,
            clock=self._clock,
            random_hex=self._random_hex,
            trace=self._trace,
            failure_ages=self._failure_ages,
            settle_until_s=self.settle_until_s,
            lease_doubt_until=self.lease_doubt_until,
            predecessor=predecessor,
        )
        self._leading_task = asyncio.create_task(self._round_leader.run(), name="leader")
        self._leading_task.add_done_callback(lambda _: self._wake())

    def _start_campaign(self, me: SessionIdentity) -> None:
        self._delay = None
        self._campaign_task = asyncio.create_task(self._campaign(me), name="campaign for leader")

    async def _cancel_campaign(self) -> None:
        if self._delay is not None:
            self._delay.cancel()
            self._delay = None
        await _cancel(self._campaign_task)
        self._campaign_task = None

    async def _campaign(self, me: SessionIdentity) -> None:
        campaign = Campaign(self._etcd, me, self.link, self._random_hex)
        while True:
            try:
                opened = await campaign.run(is_new=self._is_new and not self.settle_until_s)
            except EtcdError as error:
                log.warning("could not campaign for leader, trying again: %s", error)
                await asyncio.sleep(_RETRY_S)
            else:
                if opened is not None:
                    self._trace.point(LEADER_WROTE[opened.phase], opened.round)
                return

    async def _resign(self) -> None:
        await _cancel(self._leading_task)
        self._leading_task = self._leading_as = self._round_leader = None

    async def close(self) -> None:
        """Stop campaigning and leading; idempotent."""
        await self._cancel_campaign()
        await self._resign()


def campaign_delay_s(slot: int, *, is_first: bool) -> float:
    """Return the seconds that this slot waits so that lower slots campaign first."""
    if is_first:
        return min(FIRST_CAMPAIGN_S + slot * FIRST_CAMPAIGN_SPREAD_S, MAX_CAMPAIGN_DELAY_S) if slot else 0.0
    return min(slot * CAMPAIGN_SPREAD_S, MAX_CAMPAIGN_DELAY_S)


def leader_in(kv: KeyValue | None) -> Leader | None:
    """Return the leader's record; None if there is none, or if it cannot be read."""
    try:
        return None if kv is None else _decoded(kv.value)
    except RecordError as error:
        log.warning("ignored the leader record: %s", error)
        return None


_decoded = functools.lru_cache(maxsize=4)(decode_leader)
"""Cached: the record is read after each change of any key."""


async def _cancel(task: "asyncio.Task[None] | None") -> None:
    if task is None:
        return
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
