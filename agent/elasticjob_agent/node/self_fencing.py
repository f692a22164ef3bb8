"""`isolationGraceSeconds`: an agent that etcd has not answered for so long stops its workers and leaves by itself.

For data that two must not touch: an agent that is cut off cannot know whether its place was given to another. By
default this is off, since an outage of etcd must not stop training. It never acts before the lease of the stay has
ended, because until then the place is its own; and never while etcd answers.
"""

import asyncio
import logging

from elasticjob_agent.rendezvous.member.rendezvous_member import RendezvousMember
from elasticjob_agent.rendezvous.member.session import Session
from elasticjob_etcd.errors import EtcdError
from elasticjob_etcd.interface import Etcd
from elasticjob_etcd.leases import LeaseKeeper

_CHECK_S = 1.0
"""Between two looks at a member that joins or comes back; nothing is looked at while its lease lives."""

log = logging.getLogger(__name__)


class SelfFencing:
    """The watch over one member's way to etcd."""

    def __init__(self, etcd: Etcd, member: RendezvousMember) -> None:
        self._etcd = etcd
        self._member = member

    async def run(self) -> None:
        """Watch until cancelled; after the member was told to leave there is nothing more to do."""
        while True:
            session = self._member.session
            if session is None:
                await asyncio.sleep(_CHECK_S)
                continue
            keeper = session.keeper
            await keeper.lost.wait()
            if await self._is_session_alive(session, keeper):
                log.error("etcd has not answered for isolationGraceSeconds: stopping the workers and leaving")
                self._member.request_leave()
                await asyncio.Event().wait()

    async def _is_session_alive(self, session: Session, keeper: LeaseKeeper) -> bool:
        """Whether this loss of the lease lasts for as long as the job allows; else it has ended."""
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
