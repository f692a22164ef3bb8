"""Self-fencing: an agent without an answer of etcd for `isolationGraceSeconds` stops its workers and leaves.

It protects data that two agents must not write at once. An agent that is cut off cannot know whether another pod
has its slot now. By default it is off, because an outage of etcd must not stop training. It never acts before the
lease of the session has ended, because until then the slot is the agent's own. It never acts while etcd answers.
"""

import asyncio
import logging

from elasticjob_agent.rendezvous.member.rendezvous_member import RendezvousMember
from elasticjob_agent.rendezvous.member.session import Session
from elasticjob_etcd.errors import EtcdError
from elasticjob_etcd.interface import Etcd
from elasticjob_etcd.leases import LeaseKeeper

_CHECK_S = 1.0
"""Seconds between checks of a member that joins or comes back; while its lease is alive there are no checks."""

log = logging.getLogger(__name__)


class SelfFencing:
    """Watches one member's connection to etcd."""

    def __init__(self, etcd: Etcd, member: RendezvousMember) -> None:
        self._etcd = etcd
        self._member = member

    async def run(self) -> None:
        """Watch until cancelled; after the request to leave, only wait for the cancellation."""
        while True:
            session = self._member.session
            if session is None:
                await asyncio.sleep(_CHECK_S)
                continue
            keeper = session.keeper
            await keeper.lost.wait()
            if await self._wait_for_isolation(session, keeper):
                log.error("etcd has not answered for isolationGraceSeconds: stopping the workers and leaving")
                self._member.request_leave()
                await asyncio.Event().wait()

    async def _wait_for_isolation(self, session: Session, keeper: LeaseKeeper) -> bool:
        """Return True when etcd is out of reach for longer than the job allows; False when this loss is over."""
        since_s = asyncio.get_running_loop().time() - keeper.lease.ttl_s  # no refresh sent since then was answered
        while self._member.session is session and session.keeper is keeper:
            grace_s = session.runtime_config.isolation_grace_s
            left_s = _CHECK_S if grace_s is None else since_s + grace_s - asyncio.get_running_loop().time()
            if left_s <= 0 and not await self._etcd_answers(session):
                return self._member.session is session and session.keeper is keeper
            await asyncio.sleep(min(max(left_s, 0.0) or _CHECK_S, _CHECK_S))
        return False

    async def _etcd_answers(self, session: Session) -> bool:
        try:
            await self._etcd.get(session.me.keys.rendezvous_state)
        except EtcdError:
            return False
        return True
