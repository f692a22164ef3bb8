"""Three members of etcd that begin one cluster, and replace what is lost by themselves; never two clusters."""

import time
from pathlib import Path
from typing import Any

import pytest

from elasticjob_etcd.client import EtcdClient
from elasticjob_etcd.interface import Put, Txn
from elasticjob_etcd.member_policy import Action
from elasticjob_operator.tls.ca import CertificateAuthority
from testing.servers.etcd_members import EtcdMembers, etcd_members
from testing.waiting import aeventually

pytestmark = [pytest.mark.etcd, pytest.mark.timeout(300)]


async def write(etcd: EtcdMembers, key: str) -> None:
    client = EtcdClient(etcd.endpoint)
    await client.txn(Txn((), (Put(key, b""),)))
    await client.close()


async def has(etcd: EtcdMembers, key: str) -> bool:
    client = EtcdClient(etcd.endpoint)
    found = await client.get(key)
    await client.close()
    return found is not None


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
async def test_a_member_that_loses_its_data_is_replaced_and_one_that_keeps_them_comes_back(
    tmp_path: Path, *, tls: bool
) -> None:
    async with etcd_members(tmp_path, tls=tls) as etcd:
        etcd.start(0, 1, 2)
        await etcd.wait_healthy()
        assert [etcd.decisions(number) for number in range(3)] == [
            [Action.BOOTSTRAP.value],
            [Action.JOIN.value],
            [Action.JOIN.value],
        ]
        await write(etcd, "kept")
        before = await etcd.ids()
        etcd.kill(1)
        etcd.lose_data(0)
        etcd.start(1, 0)
        await aeventually(lambda: len(etcd.decisions(0)) == 2, within_s=60, what="the first member's decision")
        await etcd.wait_healthy()
        after = await etcd.ids()
        assert etcd.decisions(0)[1:] == [Action.JOIN.value]
        assert etcd.decisions(1)[1:] == [Action.START.value]
        assert (after["m0"] != before["m0"], after["m1"], after["m2"]) == (True, before["m1"], before["m2"])
        assert await has(etcd, "kept")


async def test_another_authority_takes_over_member_after_member_when_both_are_trusted_first(tmp_path: Path) -> None:
    """The three steps of docs/security.md. A member reads what it trusts when it starts, and no later."""
    async with etcd_members(tmp_path, tls=True) as etcd:
        etcd.start(0, 1, 2)
        await etcd.wait_healthy()
        before, old, new = await etcd.ids(), etcd.authority, CertificateAuthority.create(now_s=time.time())
        for step in (
            CertificateAuthority(old.certificate, old.key, also_trusted=new.certificate),
            CertificateAuthority(new.certificate, new.key, also_trusted=old.certificate),
            new,
        ):
            etcd.certify(step)
            for number in range(3):
                etcd.kill(number)
                etcd.start(number)
                await etcd.wait_healthy()
        assert await etcd.ids() == before


@pytest.mark.parametrize(("survivor", "tls"), [(0, False), (2, True)], ids=["first-plain", "last-tls"])
async def test_the_only_member_with_data_goes_on_alone_when_the_others_have_lost_theirs(
    survivor: int, tmp_path: Path, *, tls: bool
) -> None:
    lost = [number for number in range(3) if number != survivor]
    async with etcd_members(tmp_path, tls=tls) as etcd:
        etcd.start(0, 1, 2)
        await etcd.wait_healthy()
        await write(etcd, "kept")
        etcd.lose_data(*lost)
        etcd.start(*lost)
        for number in lost:
            await aeventually(lambda n=number: "added this member" in etcd.log_of(n), within_s=60, what="they wait")
        etcd.kill(survivor)  # as its liveness probe does when it has had no leader for long
        etcd.start(survivor)
        await etcd.wait_healthy()
        assert etcd.decisions(survivor)[-1] == Action.FORCE.value
        assert ("authentication is enabled" in etcd.log_of(survivor)) is tls
        assert await has(etcd, "kept")


async def test_all_that_lose_their_data_at_once_begin_one_new_cluster(tmp_path: Path) -> None:
    async with etcd_members(tmp_path) as etcd:
        etcd.start(0, 1, 2)
        await etcd.wait_healthy()
        await write(etcd, "kept")
        etcd.lose_data(0, 1, 2)
        etcd.start(2, 1)
        await aeventually(
            lambda: "conclusive answer from m0" in etcd.log_of(1), within_s=60, what="the others wait for the first"
        )
        etcd.start(0)
        await etcd.wait_healthy()
        assert [etcd.decisions(number)[-1] for number in range(3)] == [
            Action.BOOTSTRAP.value,
            Action.JOIN.value,
            Action.JOIN.value,
        ]
        assert not await has(etcd, "kept")


async def test_the_first_member_begins_nothing_while_it_cannot_reach_the_others(tmp_path: Path) -> None:
    async with etcd_members(tmp_path) as etcd:
        etcd.start(0, 1, 2)
        await etcd.wait_healthy()
        await write(etcd, "kept")
        etcd.suspend(1, 2)
        etcd.lose_data(0)
        etcd.start(0)
        await aeventually(lambda: "conclusive answer from m1, m2" in etcd.log_of(0), within_s=60, what="it waits")
        etcd.resume(1, 2)
        await etcd.wait_healthy()
        assert etcd.decisions(0) == [Action.BOOTSTRAP.value, Action.JOIN.value]
        assert await has(etcd, "kept")


async def test_a_majority_that_comes_back_with_its_data_goes_on(tmp_path: Path) -> None:
    async with etcd_members(tmp_path) as etcd:
        etcd.start(0, 1, 2)
        await etcd.wait_healthy()
        await write(etcd, "kept")
        before = await etcd.ids()
        etcd.kill(0, 1)
        etcd.start(0, 1)
        await etcd.wait_healthy()
        assert await etcd.ids() == before
        assert [etcd.decisions(number)[-1] for number in (0, 1)] == [Action.START.value] * 2
        assert await has(etcd, "kept")


async def test_a_single_member_keeps_its_data_when_it_becomes_one_of_three(tmp_path: Path) -> None:
    async with etcd_members(tmp_path) as etcd:
        etcd.start_alone(0)
        listed: Any = etcd.members  # mypy takes a coroutine function for a plain one
        await aeventually(listed, within_s=60, what="a single member")
        await write(etcd, "kept")
        before = await etcd.ids()
        etcd.kill(0)
        etcd.start(2, 1)
        await aeventually(
            lambda: "conclusive answer from m0" in etcd.log_of(1), within_s=60, what="the others wait for it"
        )
        etcd.start(0)
        await etcd.wait_healthy()
        after = await etcd.ids()
        assert etcd.decisions(0) == [Action.START.value], "force would drop its newest writes"
        assert [etcd.decisions(number) for number in (1, 2)] == [[Action.JOIN.value]] * 2
        assert after["m0"] == before["m0"]
        assert await has(etcd, "kept")


async def test_a_change_to_three_members_that_stops_halfway_leaves_the_single_one_serving(tmp_path: Path) -> None:
    async with etcd_members(tmp_path) as etcd:

        async def is_moved() -> bool:
            return [member.peer_urls for member in await etcd.members()] == [(etcd.urls["m0"],)]

        moved: Any = is_moved  # mypy takes a coroutine function for a plain one
        etcd.start_alone(0)
        await aeventually(moved, within_s=60, what="the operator expects three")
        etcd.kill(0)
        etcd.start_alone(0)
        await aeventually(moved, within_s=60, what="the single member, started once more")
        await write(etcd, "kept")
        etcd.start(1)
        await aeventually(lambda: "cannot fetch cluster info" in etcd.log_of(1), within_s=60, what="it reaches nobody")
        await write(etcd, "written beside another that tried to join")
        etcd.kill(0, 1)
        etcd.start(0, 1, 2)
        await etcd.wait_healthy()
        assert etcd.decisions(0) == [Action.START.value]
        assert etcd.decisions(1) == [Action.JOIN.value] * 2
        assert await has(etcd, "kept")
        assert await has(etcd, "written beside another that tried to join")
