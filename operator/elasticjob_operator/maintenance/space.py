"""Space in the installation's own etcd: looked at now and then, and at once when etcd takes no writes.

Compacts, defragments and ends the NOSPACE alarm as `policy.etcd_space` decides. Needs an administrator's rights, and
an etcd that is the installation's own: other users of a shared one may need their history.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import replace

from elasticjob_etcd.errors import EtcdError
from elasticjob_etcd.maintenance import Maintenance
from elasticjob_etcd.members import Member, MemberStatus
from elasticjob_operator.policy.etcd.space import Compact, Defragment, Disarm, Reclaimed, Space, Step, next_step

LOOK_S = 300.0
LOOK_WHEN_FULL_S = 5.0

Connect = Callable[[], AbstractAsyncContextManager[Maintenance]]

log = logging.getLogger(__name__)


class EtcdSpace:
    """Keeps one etcd from being full; `quota` is used for an etcd that does not report its own."""

    def __init__(self, connect: Connect, *, quota: int, look_when_full_s: float = LOOK_WHEN_FULL_S) -> None:
        self._connect = connect
        self._quota = quota
        self._look_when_full_s = look_when_full_s
        self._suspicion = asyncio.Event()
        self._done = Reclaimed()
        self._said = ""

    def check_now(self) -> None:
        """Etcd may be full: look at once."""
        self._suspicion.set()

    async def run(self) -> None:
        """Look until cancelled; what an earlier run has done counts for nothing."""
        self._done = Reclaimed()
        while True:
            self._suspicion.clear()
            is_full = await self._look()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._look_when_full_s if is_full else LOOK_S):
                    await self._suspicion.wait()

    async def _look(self) -> bool:
        """Do all that helps now; whether etcd is full still, or not all of it can be asked."""
        try:
            async with self._connect() as maintenance:
                is_full = await self._reclaim(maintenance)
        except EtcdError as error:
            if str(error) != self._said:
                log.warning("etcd's space cannot be looked after, trying again: %s", error)
            self._said = str(error)
            return True
        self._said = ""
        return is_full

    async def _reclaim(self, maintenance: Maintenance) -> bool:
        members = {member.id: member for member in await maintenance.members()}
        space = await self._observe(maintenance, members)
        revision = space.revision  # keys that are deleted from now on are the next look's
        if not space.full:
            self._done = Reclaimed()
        while (step := next_step(space, self._done)) is not None:
            await _perform(maintenance, members, step)
            self._done = self._done.after(step)
            space = replace(await self._observe(maintenance, members), revision=revision)
            if isinstance(step, Disarm) and space.full:
                break  # it came back at once
        return bool(space.full or space.unknown)

    async def _observe(self, maintenance: Maintenance, members: dict[int, Member]) -> Space:
        statuses: list[MemberStatus] = []
        for member in members.values():
            with contextlib.suppress(EtcdError):  # it is counted as unknown
                statuses.append(await maintenance.status(member))
        return Space(
            members=tuple(statuses),
            full=await maintenance.full_members(),
            revision=max((status.revision for status in statuses), default=0),
            quota=self._quota,
            unknown=len(members) - len(statuses),
        )


async def _perform(maintenance: Maintenance, members: dict[int, Member], step: Step) -> None:
    match step:
        case Compact(revision):
            log.info("etcd is full: compacting its history to revision %d", revision)
            await maintenance.compact(revision)
        case Defragment(member_id):
            log.info("defragmenting etcd's member %s", members[member_id].name)
            await maintenance.defragment(members[member_id])
        case Disarm(member_ids):
            for member_id in sorted(member_ids):
                await maintenance.disarm(member_id)
            log.info("etcd has space again: ended its NOSPACE alarm")
