"""One stay of a node in a job: its identity, its lease, and what it remembers of what it has written.

`enter` begins one and keeps trying while etcd is silent. `come_back` follows a lost lease: the same stay again if the
job has not moved on, else None. Then the node stops its workers before it enters anew.
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from elasticjob_agent.rendezvous.errors import NothingWanted, Unreachable
from elasticjob_agent.rendezvous.member import join, store_reset
from elasticjob_agent.rendezvous.member.join import Ports, Profile, Wanted, Watching
from elasticjob_agent.rendezvous.member.store_reset import Kept
from elasticjob_agent.rendezvous.protocol.last_known_state import Recall
from elasticjob_agent.rendezvous.protocol.transactions import Identity, NodeAt
from elasticjob_api.records import Node, Slots
from elasticjob_api.rendezvous_state import World
from elasticjob_api.runtime_config import Terms, decode_terms
from elasticjob_etcd.errors import EtcdError, LeaseNotFound, StoreReset, Unavailable
from elasticjob_etcd.interface import Etcd, KeyValue, Lease, Range
from elasticjob_etcd.leases import LeaseKeeper

PASSING = (Unavailable, LeaseNotFound, StoreReset)
"""Trouble with etcd after which an act is tried again, from what the watch shows then."""
RETRY_S = 0.25
SAY_AGAIN_S = 10.0
SPEC_S = 30.0
"""How long a spec may be absent without meaning the end: etcd may have been wiped.

An operator writes it again. Without one the watch shows a wipe, and a node that was in the job before writes it.
"""

log = logging.getLogger(__name__)


@dataclass(slots=True, kw_only=True)
class Stay:
    """One incarnation at work."""

    me: Identity
    last: NodeAt
    wanted: Wanted
    """As it was when this node joined."""
    ctl: Range
    keeper: LeaseKeeper
    terms: Terms = field(init=False)
    """The terms of its workers now."""
    started: tuple[int, str] | None = None
    """(round, nonce) of the workers started last."""
    told: bytes = b""
    """The terms that the closer wrote last."""
    done_round: int = 0
    leave_tried: bool = False
    """An act failed after this node was told to leave: its workers stop, whether or not its peers know."""
    failures_said: int = 0
    opening: tuple[str, int] = ("", 0)
    """(nonce, failures told) of the round that this node opens because of them: the answer may have been lost."""

    def __post_init__(self) -> None:
        self.terms = self.wanted.brief.terms

    @property
    def node(self) -> Node:
        """The own record, as far as it is known to be written."""
        return self.last.node

    @property
    def keep_alive_s(self) -> float:
        """Return how long the job lets an agent be silent."""
        return self.wanted.brief.keep_alive_s

    def note(self, world: World | None) -> None:
        """Take in the world as it is seen: if it is the one this node opened, its failures are said."""
        nonce, told = self.opening
        if world is not None and nonce and world.nonce == nonce:
            self.failures_said = max(self.failures_said, told)

    def follow(self, terms: KeyValue | None) -> None:
        """Take in what the closer says of changes in the spec, as the watch shows it. Raises RecordError."""
        if terms is not None and terms.value != self.told:
            self.told = terms.value
            self.terms = decode_terms(terms.value)

    def kept(self, recall: Recall) -> Kept:
        """What is written back after a wipe."""
        return Kept(
            me=self.me,
            node=self.node,
            keep_alive_s=self.keep_alive_s,
            own_spec=None if self.wanted.own is None else self.terms.apply(self.wanted.own),
            recall=recall,
            started=self.started,
            done_round=self.done_round,
        )

    def go_on_as(self, back: tuple[Identity, NodeAt], *, wiped: bool) -> None:
        """The same stay under a new lease."""
        self.me, self.last = back
        if wiped:
            # The round that runs is still the one in which they happened: what was said of them is forgotten.
            self.failures_said, self.opening = 0, ("", 0)

    async def close(self) -> None:
        """Stop refreshing; the lease is left to itself."""
        await self.keeper.close()


def returning(first: Profile, recall: Recall, own_spec: Slots | None, *, wipes: int, noted: int) -> Profile:
    """The profile of a node that was in the job before, as it enters again.

    It only comes back to the job: if that has ended and is cleared away, this is the end, and not the beginning of
    another run. In a wiped store there is nothing to come back to: there the job begins again, with `own_spec`.
    Who has never seen a world cannot know: it was in no round, and is like one that starts now.
    `wipes` is how many the watch has met, `noted` how many of them `recall` knows of.
    """
    profile = replace(first, clears=False)
    if recall.seen_here and wipes == noted:
        return replace(profile, own_spec=None, brief=None)
    return profile if not wipes or own_spec is None else replace(profile, own_spec=own_spec)


@dataclass(frozen=True, slots=True, kw_only=True)
class Entrance:
    """What entering needs."""

    etcd: Etcd
    profile: Profile
    clock: Callable[[], float]
    draw: Callable[[], str]
    link_port: int = 0
    """Where the node's link listens; 0: nowhere."""

    async def enter(
        self,
        *,
        master_port: int,
        timeout_s: float,
        give_up: Callable[[], bool],
        watching: Watching | None = None,
        profile: Callable[[], Profile] | None = None,
        is_over: Callable[[], bool] | None = None,
    ) -> Stay | None:
        """Begin a stay, `watching` for its world; None when `give_up` says so first.

        Raises Unreachable, Superseded, Refused.
        Each attempt asks for the `profile`: what the watch shows meanwhile may change it. A missing spec is the end
        after a while, and at once if `is_over`: by default where no operator gave this node its slot.
        """
        is_over = is_over or (lambda: self.profile.slot is None)
        ports = Ports(master_port, self.link_port)
        start_s = said_s = self.clock()
        while not give_up():
            try:
                return await self._enter_once(ports, self.profile if profile is None else profile(), watching)
            except PASSING as error:
                now_s = self.clock()
                if now_s - start_s >= timeout_s:
                    raise Unreachable(f"etcd did not answer within {timeout_s:g} s: {error}") from error
                if now_s - said_s >= SAY_AGAIN_S or said_s == start_s:
                    log.warning("etcd does not answer, trying for another %g s: %s", timeout_s - now_s + start_s, error)
                    said_s = now_s
                await asyncio.sleep(RETRY_S)
            except NothingWanted as error:
                if is_over() or self.clock() - start_s >= SPEC_S:
                    raise
                if said_s == start_s:
                    log.warning("%s; or etcd was wiped: waiting %g s for the spec", error, SPEC_S)
                    said_s = self.clock()
                await asyncio.sleep(RETRY_S)
        return None

    async def _enter_once(self, ports: Ports, profile: Profile, watching: Watching | None) -> Stay:
        joined = await join.join(self.etcd, profile, ports=ports, draw=self.draw, watching=watching)
        keeper = LeaseKeeper(self.etcd, joined.lease, self.clock)
        return Stay(me=joined.me, last=joined.last, wanted=joined.wanted, ctl=joined.ctl, keeper=keeper)

    async def come_back(self, stay: Stay, recall: Recall, *, wiped: bool) -> bool:
        """Put a lost stay back under a new lease, its workers untouched; False when it has to begin anew."""
        if wiped:
            back = await store_reset.come_back(self.etcd, stay.kept(recall))
        else:
            back = await join.come_back(
                self.etcd,
                stay.me,
                stay.node,
                operated=stay.wanted.is_operated,
                started=stay.started,
                lease_ttl_s=stay.keep_alive_s,
                remembered=recall.world,
            )
        if back is None:
            return False
        await stay.close()
        stay.go_on_as(back, wiped=wiped)
        stay.keeper = LeaseKeeper(self.etcd, Lease(stay.me.lease, stay.keeper.lease.ttl_s), self.clock)
        return True

    async def leave_nothing(self, stay: Stay) -> None:
        """Revoke the lease of a stay that is over, if it still lives; etcd may not answer: then it expires."""
        await stay.close()
        try:
            await self.etcd.lease_revoke(stay.me.lease)
        except EtcdError as error:
            log.warning("could not revoke the lease, it expires within %g s: %s", stay.keeper.lease.ttl_s, error)
