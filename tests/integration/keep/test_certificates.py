"""Real keepers of a release with TLS: copies and fetches between certificates of one job, and none with others."""

import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from elasticjob_agent.keep.keeper.errors import RequestRefused
from elasticjob_operator.tls.ca import CertificateAuthority
from testing.waiting import aeventually
from tests.integration.keep.certificate_files import CertificateFiles
from tests.integration.keep.keeper_group import GroupNode, KeeperGroup, keeper_group
from tests.integration.keep.parts import contents


@pytest.fixture(scope="module")
def authority() -> CertificateAuthority:
    """Return the authority of a release."""
    return CertificateAuthority.create(now_s=time.time())


@pytest.fixture
def files(authority: CertificateAuthority, tmp_path: Path) -> CertificateFiles:
    """Return the files of a job's certificate."""
    return CertificateFiles(tmp_path / "job", authority)


@pytest.fixture
async def group(keep_dir: Path, files: CertificateFiles) -> AsyncIterator[KeeperGroup]:
    """Return a job with certificates that has no node yet."""
    async with keeper_group(keep_dir, tls=files.paths) as made:
        yield made


async def replace_second(group: KeeperGroup, third: GroupNode) -> None:
    """Lose the second node, and begin a round with another one in its place."""
    first, second = group.members
    await group.lose(second)
    await group.round(first, third)


async def test_steps_are_copied_and_fetched(group: KeeperGroup) -> None:
    await group.round(await group.add(0), await group.add(1))
    parts = group.publish(10)
    await group.until_committed(group.step(10))
    third = await group.add(1)
    await replace_second(group, third)
    assert third.kept is not None
    assert contents(third.kept) == {name: data for files in parts.values() for name, data in files.items()}


async def test_a_step_with_different_files_of_one_name_and_size_is_never_committed(group: KeeperGroup) -> None:
    await group.round(await group.add(0), await group.add(1))
    for index, node in enumerate(group.members):
        node.publish(f"step-8.{index}-of-2", {"state.pt": bytes([index]) * 9})
    await aeventually(
        lambda: any("different files 'state.pt'" in node.client.progress.degraded for node in group.members),
        what="a node has found it",
    )
    group.publish(9)
    committed = [await aeventually(lambda node=node: node.committed, what="a commit") for node in group.members]
    assert committed == [group.step(9)] * 2


async def refuses(group: KeeperGroup, stranger: GroupNode) -> None:
    """Check that no part comes to a stranger, nor from it."""
    first = await group.add(0)
    await group.round(first, stranger)
    group.publish(10)
    step = group.step(10)
    own = {first: {step: frozenset({0})}, stranger: {step: frozenset({1})}}
    await aeventually(lambda: {node: node.client.holdings for node in own} == own, what="each has taken its own part")
    for node, other, part in ((first, stranger, 1), (stranger, first, 0)):
        with pytest.raises(RequestRefused, match="each has failed"):
            await node.client.fetch(step, {part: [other.address]}, 60.0)
    assert {node: node.client.holdings for node in own} == own


async def test_a_keeper_without_a_certificate_is_refused(group: KeeperGroup) -> None:
    plain, group.tls = group.tls, None
    stranger = await group.add(1)
    group.tls = plain
    await refuses(group, stranger)


async def test_a_certificate_of_another_authority_is_refused(group: KeeperGroup, tmp_path: Path) -> None:
    other = CertificateFiles(tmp_path / "other", CertificateAuthority.create(now_s=time.time()))
    await refuses(group, await group.add(1, tls=other.paths))


async def test_the_certificate_of_another_job_of_the_release_is_refused(
    group: KeeperGroup, authority: CertificateAuthority, tmp_path: Path
) -> None:
    other = CertificateFiles(tmp_path / "other", authority)
    await refuses(group, await group.add(1, tls=other.paths, secret="0e" * 32))


async def test_an_expired_certificate_is_refused(
    group: KeeperGroup, authority: CertificateAuthority, tmp_path: Path
) -> None:
    expired = CertificateFiles(tmp_path / "expired", authority)
    expired.issue(authority, life_s=-60)
    await refuses(group, await group.add(1, tls=expired.paths))


async def test_a_renewed_certificate_is_used_without_another_join(group: KeeperGroup, files: CertificateFiles) -> None:
    await group.round(await group.add(0), await group.add(1))
    group.publish(10)
    await group.until_committed(group.step(10))
    # A certificate of the old authority, or an expired one, would be refused from now on.
    files.issue(CertificateAuthority.create(now_s=time.time()))
    third = await group.add(1)
    step = group.step(10)
    await replace_second(group, third)
    assert third.kept is not None
    await group.until_committed(step)


async def test_a_certificate_that_cannot_be_used_is_reported_and_the_old_one_remains(
    group: KeeperGroup, files: CertificateFiles, authority: CertificateAuthority
) -> None:
    first, second = await group.add(0), await group.add(1)
    files.damage()
    await group.round(first, second)
    for number in (10, 20):
        group.publish(number)
        await group.until_committed(group.step(number))
    [notice] = {*first.notices, *second.notices}
    assert "the renewed certificate is not used yet" in notice
    files.issue(authority)
    step = group.step(20)
    await replace_second(group, await group.add(1))
    await group.until_committed(step)


async def test_a_certificate_that_could_not_be_used_at_the_start_is_used_once_it_can_be(
    group: KeeperGroup, files: CertificateFiles, authority: CertificateAuthority
) -> None:
    files.damage()
    first, second = await group.add(0), await group.add(1)
    await group.round(first, second)
    await aeventually(lambda: "certificate" in first.client.progress.degraded, what="the reason is reported")
    files.issue(authority)
    group.publish(10)
    await group.until_committed(group.step(10))
