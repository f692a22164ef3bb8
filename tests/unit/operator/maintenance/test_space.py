"""One check of etcd's space executes every step, even for members without an alarm or that answer late."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import replace

from elasticjob_etcd.errors import Unavailable
from elasticjob_etcd.members import EtcdMember, MemberStatus
from elasticjob_operator.maintenance.space import EtcdSpaceKeeper
from testing.waiting import aeventually

QUOTA = 1000


class FullEtcd:
    """Three members, the first of which has the alarm; a defragmented file has 10 bytes."""

    def __init__(self, *sizes: int) -> None:
        self.files = {
            number: MemberStatus(number, number == 1, 7, size, 10, QUOTA) for number, size in enumerate(sizes, 1)
        }
        self.alarms = {1}
        self.silent: set[int] = set()
        """Members that do not answer."""

    async def members(self) -> tuple[EtcdMember, ...]:
        return tuple(EtcdMember(number, f"m{number}", ()) for number in self.files)

    async def status(self, member: EtcdMember) -> MemberStatus:
        if member.id in self.silent:
            raise Unavailable("no answer")
        return self.files[member.id]

    async def full_members(self) -> frozenset[int]:
        return frozenset(self.alarms)

    async def compact(self, revision: int) -> None:
        """Do nothing: there is no history."""

    async def defragment(self, member: EtcdMember) -> None:
        self.files[member.id] = replace(self.files[member.id], db_size=10)

    async def disarm(self, member_id: int) -> None:
        self.alarms.discard(member_id)

    @contextlib.asynccontextmanager
    async def connect(self) -> AsyncIterator["FullEtcd"]:
        yield self

    def sizes(self) -> list[int]:
        return [status.db_size for status in self.files.values()]


@contextlib.asynccontextmanager
async def looked_after(etcd: FullEtcd) -> AsyncIterator[None]:
    task = asyncio.create_task(EtcdSpaceKeeper(etcd.connect, quota=QUOTA, check_when_full_s=0.001).run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait({task})


async def test_members_without_an_alarm_that_waste_space_are_defragmented_in_the_same_check() -> None:
    etcd = FullEtcd(1000, 700, 700)
    async with looked_after(etcd):
        await aeventually(lambda: (etcd.alarms, etcd.sizes()) == (set(), [10, 10, 10]), what="all of them small")


async def test_a_member_that_did_not_answer_is_checked_again_soon() -> None:
    etcd = FullEtcd(1000, 700, 900)
    etcd.silent.add(3)
    async with looked_after(etcd):
        await aeventually(lambda: not etcd.alarms, what="the end of the alarm")
        etcd.silent.clear()
        await aeventually(lambda: etcd.sizes() == [10, 10, 10], what="all of them small")


async def test_an_alarm_that_is_raised_again_does_not_keep_the_loop_busy() -> None:
    etcd = FullEtcd(10, 10, 10)
    disarmed: list[int] = []

    async def disarm(member_id: int) -> None:
        disarmed.append(member_id)
        await asyncio.sleep(0)

    etcd.disarm = disarm  # type: ignore[method-assign]
    async with looked_after(etcd):
        await aeventually(lambda: len(disarmed) >= 2, what="another look")


async def test_a_member_whose_compaction_ended_after_its_defragmentation_is_defragmented_again() -> None:
    etcd = FullEtcd(1000, 10, 10)
    etcd.files[1] = replace(etcd.files[1], db_size_in_use=950)
    defragmented = etcd.defragment

    async def finish_compaction_late(member: EtcdMember) -> None:
        if etcd.files[member.id].db_size_in_use == 950:  # the history is still in the file: it keeps its size
            etcd.files[member.id] = replace(etcd.files[member.id], db_size_in_use=10)
        else:
            await defragmented(member)

    etcd.defragment = finish_compaction_late  # type: ignore[method-assign]
    async with looked_after(etcd):
        await aeventually(lambda: (etcd.alarms, etcd.sizes()[0]) == (set(), 10), what="the end of the alarm")


async def test_a_member_with_little_to_free_is_defragmented_once() -> None:
    etcd = FullEtcd(1000, 10, 10)
    etcd.files[1] = replace(etcd.files[1], db_size_in_use=950)
    checks, defragmented = list[int](), list[int]()
    full_members = etcd.full_members

    async def count_check() -> frozenset[int]:
        checks.append(1)
        return await full_members()

    async def keep_size(member: EtcdMember) -> None:
        defragmented.append(member.id)

    etcd.full_members, etcd.defragment = count_check, keep_size  # type: ignore[method-assign]
    async with looked_after(etcd):
        await aeventually(lambda: len(checks) > 10, what="some checks")
    assert defragmented == [1]
