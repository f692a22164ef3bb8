"""Space in the installation's own etcd, checked at intervals, and at once when etcd refuses writes.

Compacts, defragments and disarms the NOSPACE alarm as `policy.etcd.space` decides. This needs an administrator's
rights, and an etcd of the installation alone: other users of a shared one may need the history.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import replace

from elasticjob_etcd.errors import EtcdError
from elasticjob_etcd.maintenance import Maintenance
from elasticjob_etcd.members import EtcdMember, MemberStatus
from elasticjob_operator.policy.etcd.space import Compact, Defragment, Disarm, Reclaimed, SpaceUsage, Step, next_step

CHECK_S = 300.0
CHECK_WHEN_FULL_S = 5.0

Connect = Callable[[], AbstractAsyncContextManager[Maintenance]]

log = logging.getLogger(__name__)


class EtcdSpaceKeeper:
    """Keeps one etcd from becoming full; `quota` is used for an etcd that does not report its own."""

    def __init__(self, connect: Connect, *, quota: int, check_when_full_s: float = CHECK_WHEN_FULL_S) -> None:
        self._connect = connect
        self._quota = quota
        self._check_when_full_s = check_when_full_s
        self._check_requested = asyncio.Event()
        self._reclaimed = Reclaimed()
        self._logged = ""

    def check_now(self) -> None:
        """Check at once, because etcd may be full."""
        self._check_requested.set()

    async def run(self) -> None:
        """Check until cancelled."""
        self._reclaimed = Reclaimed()  # steps of an earlier run do not count
        while True:
            self._check_requested.clear()
            is_full = await self._check()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._check_when_full_s if is_full else CHECK_S):
                    await self._check_requested.wait()

    async def _check(self) -> bool:
        """Execute all steps; return whether etcd is still full or a member does not respond."""
        try:
            async with self._connect() as maintenance:
                is_full = await self._reclaim(maintenance)
        except EtcdError as error:
            if str(error) != self._logged:
                log.warning("cannot check etcd's space, trying again: %s", error)
            self._logged = str(error)
            return True
        self._logged = ""
        return is_full

    async def _reclaim(self, maintenance: Maintenance) -> bool:
        members = {member.id: member for member in await maintenance.members()}
        space = await self._observe(maintenance, members)
        revision = space.revision  # keys deleted from now on are left to the next check
        self._reclaimed = self._reclaimed.before_check(space) if space.full else Reclaimed()
        while (step := next_step(space, self._reclaimed)) is not None:
            await _execute(maintenance, members, step)
            self._reclaimed = self._reclaimed.after(step)
            space = replace(await self._observe(maintenance, members), revision=revision)
            if isinstance(step, Disarm) and space.full:
                break  # the alarm was raised again at once
        return bool(space.full or space.unknown)

    async def _observe(self, maintenance: Maintenance, members: dict[int, EtcdMember]) -> SpaceUsage:
        statuses: list[MemberStatus] = []
        for member in members.values():
            with contextlib.suppress(EtcdError):  # the member counts as unknown
                statuses.append(await maintenance.status(member))
        return SpaceUsage(
            members=tuple(statuses),
            full=await maintenance.full_members(),
            revision=max((status.revision for status in statuses), default=0),
            quota=self._quota,
            unknown=len(members) - len(statuses),
        )


async def _execute(maintenance: Maintenance, members: dict[int, EtcdMember], step: Step) -> None:
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
            log.info("etcd has space again: disarmed its NOSPACE alarm")
