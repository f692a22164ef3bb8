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
from elasticjob_operator.policy.etcd.space import Compact, Defragment, Disarm, Reclaimed, SpaceUsage, Step, next_step

CHECK_S = 300.0
CHECK_WHEN_FULL_S = 5.0

Connect = Callable[[], AbstractAsyncContextManager[Maintenance]]

log = logging.getLogger(__name__)


class EtcdSpaceKeeper:
    """Keeps one etcd from being full; `quota` is used for an etcd that does not report its own."""

    def __init__(self, connect: Connect, *, quota: int, check_when_full_s: float = CHECK_WHEN_FULL_S) -> None:
        self._connect = connect
        self._quota = quota
        self._check_when_full_s = check_when_full_s
        self._check_requested = asyncio.Event()
        self._reclaimed = Reclaimed()
        self._logged = ""

    def check_now(self) -> None:
        """Etcd may be full: look at once."""
        self._check_requested.set()

    async def run(self) -> None:
        """Look until cancelled; what an earlier run has done counts for nothing."""
        self._reclaimed = Reclaimed()
        while True:
            self._check_requested.clear()
            is_full = await self._check()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._check_when_full_s if is_full else CHECK_S):
                    await self._check_requested.wait()

    async def _check(self) -> bool:
        """Do all that helps now; whether etcd is full still, or not all of it can be asked."""
        try:
            async with self._connect() as maintenance:
                is_full = await self._reclaim(maintenance)
        except EtcdError as error:
            if str(error) != self._logged:
                log.warning("etcd's space cannot be looked after, trying again: %s", error)
            self._logged = str(error)
            return True
        self._logged = ""
        return is_full

    async def _reclaim(self, maintenance: Maintenance) -> bool:
        members = {member.id: member for member in await maintenance.members()}
        space = await self._observe(maintenance, members)
        revision = space.revision  # keys that are deleted from now on are the next look's
        if not space.full:
            self._reclaimed = Reclaimed()
        while (step := next_step(space, self._reclaimed)) is not None:
            await _execute(maintenance, members, step)
            self._reclaimed = self._reclaimed.after(step)
            space = replace(await self._observe(maintenance, members), revision=revision)
            if isinstance(step, Disarm) and space.full:
                break  # it came back at once
        return bool(space.full or space.unknown)

    async def _observe(self, maintenance: Maintenance, members: dict[int, Member]) -> SpaceUsage:
        statuses: list[MemberStatus] = []
        for member in members.values():
            with contextlib.suppress(EtcdError):  # it is counted as unknown
                statuses.append(await maintenance.status(member))
        return SpaceUsage(
            members=tuple(statuses),
            full=await maintenance.full_members(),
            revision=max((status.revision for status in statuses), default=0),
            quota=self._quota,
            unknown=len(members) - len(statuses),
        )


async def _execute(maintenance: Maintenance, members: dict[int, Member], step: Step) -> None:
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
