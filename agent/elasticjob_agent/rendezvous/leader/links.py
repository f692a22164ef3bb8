"""The leader's links: one to each node with a listener; they prove that a process is gone, and nothing more.

It gets each view; the plan reads `proved`. New links are opened while a round runs, a few at a time: while a round
forms, the nodes and the leader are busy. For a node without a link its lease decides.
"""

import asyncio
import logging
import resource
from collections.abc import Callable, Collection, Iterable

from elasticjob_agent.rendezvous.leader import dial
from elasticjob_agent.rendezvous.protocol.crash_proof import DialOutcome, Link, LinkStep, adopt, first_step, next_step
from elasticjob_agent.rendezvous.protocol.link_handshake import PORTS, Address, Hello
from elasticjob_agent.rendezvous.protocol.transactions import SessionIdentity
from elasticjob_agent.tracing import Tracer
from elasticjob_api.rendezvous_state import Member, RoundPhase
from elasticjob_api.rendezvous_view import NodeEntry, RendezvousView

MAX_DIALS = 16
_RESERVED_FILES = 128
"""Open files that are not for links: for etcd, the workers' pipes, log files."""

log = logging.getLogger(__name__)


class LeaderLinks:
    """Links of one leader; `on_proof` is called when `proved` has grown."""

    def __init__(
        self,
        *,
        me: SessionIdentity,
        clock: Callable[[], float],
        random_hex: Callable[[], str],
        trace: Tracer,
        on_proof: Callable[[], None],
    ) -> None:
        self._me = me
        self._clock = clock
        self._random_hex = random_hex
        self._trace = trace
        self._on_proof = on_proof
        self._tasks: dict[Member, asyncio.Task[None]] = {}
        self._all: set[asyncio.Task[None]] = set()
        """All tasks, including those that are ending because their node is gone."""
        self._dial_slots = asyncio.Semaphore(MAX_DIALS)
        self._has_begun = False
        self._key: bytes | None = None
        """The job's key in the newest view; without one there are no links."""
        self.proved: frozenset[Member] = frozenset()

    def update(self, view: RendezvousView, *, predecessor_crashed: bool = False) -> None:
        """Open links to the nodes of this view, and close all others.

        If the predecessor crashed, the first call dials the members of its round at once.
        """
        self._key = view.link_secret
        self.proved &= view.nodes.keys()
        has_ended = view.state is not None and view.state.phase.is_final
        wanted = set() if has_ended else view.nodes.keys()  # after the end all agents exit: that is no loss
        for member in self._tasks.keys() - wanted:
            self._tasks.pop(member).cancel()
        if self._key is None:
            return
        if not self._has_begun and predecessor_crashed and not has_ended and view.membership is not None:
            for node in self._unlinked(view, set(view.membership.members)):
                self._start_link(node, adopt())
        self._has_begun = True
        if view.state is not None and view.state.phase is RoundPhase.ACTIVE:
            crowd = self._unlinked(view, view.nodes.keys())
            for node in crowd:
                self._start_link(node, first_step(members=len(crowd)))

    def close_all(self) -> None:
        """Close all links until the next view: a final state is written next, and each agent exits when it sees it."""
        for task in self._tasks.values():
            task.cancel()
        self._tasks.clear()

    def _unlinked(self, view: RendezvousView, among: Collection[Member]) -> list[NodeEntry]:
        """Return the nodes that have a listener and no link yet, as many as the limit of open files allows."""
        listening = _reachable_nodes(view.nodes.values())
        no_need = {*self._tasks, self._me.member}
        room = raised_file_limit() - _RESERVED_FILES - len(self._tasks)
        return [node for node in listening if node.member in among and node.member not in no_need][: max(0, room)]

    def _start_link(self, node: NodeEntry, first: LinkStep) -> None:
        coroutine = self._keep_linked(node.member, Address(node.record.address, node.record.link_port), first)
        task = asyncio.create_task(coroutine, name=f"link to {node.record.pod}")
        self._tasks[node.member] = task
        self._all.add(task)
        task.add_done_callback(self._all.discard)

    async def _keep_linked(self, member: Member, address: Address, next_: LinkStep) -> None:
        """Keep a link to `member` until it is proved to be gone, or until no dial is left."""
        while next_.dial_in_s is not None:
            await asyncio.sleep(next_.dial_in_s)
            if self._key is None:
                return
            result = await self._dial(member, address, self._key)
            next_ = next_step(next_.link, result.outcome)
            if result.reader is not None:
                next_ = await self._hold_open(next_.link, result, result.reader)
                self._trace.point("link ended", 0)
        if next_.is_crashed:
            log.warning("slot %d (%s) is gone: %s does not answer", member.slot, member.incarnation, address)
            self._trace.point("link proved", 0)
            self.proved |= {member}
            self._on_proof()
        else:
            log.debug("no lasting link to %s; the lease of slot %d decides", address, member.slot)

    async def _dial(self, member: Member, address: Address, key: bytes) -> dial.DialResult:
        mine = Hello(self._me.keys.prefix, self._me.member, self._random_hex() + self._random_hex())
        async with self._dial_slots:
            return await dial.dial(address, mine, member, key)

    async def _hold_open(self, link: Link, result: dial.DialResult, reader: asyncio.StreamReader) -> LinkStep:
        since_s = self._clock()
        try:
            await dial.wait_ended(reader)
        finally:
            result.close()
        return next_step(link, DialOutcome.ENDED, lasted_s=self._clock() - since_s)

    async def close(self) -> None:
        """End all links; idempotent."""
        tasks = list(self._all)
        self._tasks.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.sleep(0)  # so that the transports close


def _reachable_nodes(nodes: Iterable[NodeEntry]) -> list[NodeEntry]:
    return [node for node in nodes if node.record.link_port in PORTS and node.record.address]


def raised_file_limit() -> int:
    """Raise the limit of open files as far as allowed, and return it; workers keep the limit of the fork server."""
    soft_limit, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = 65536 if hard == resource.RLIM_INFINITY else min(hard, 65536)
    if soft_limit == resource.RLIM_INFINITY or soft_limit >= most:
        return most
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    return most
