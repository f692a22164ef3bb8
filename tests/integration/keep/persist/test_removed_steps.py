"""Which persisted steps stay in the shared directory, and which ones its keepers remove."""

import shutil
from pathlib import Path

from elasticjob_api.kept_steps import KeptStep, Lineage, PersistedStep
from testing.waiting import aeventually
from tests.integration.keep.keeper_group import GroupNode, keeper_group
from tests.integration.keep.keepers import RUN
from tests.integration.keep.persist.persisting_group import Training, path_of, whole_numbers


async def test_the_newest_steps_stay_and_older_ones_go(keep_dir: Path, tmp_path: Path) -> None:
    async with keeper_group(keep_dir, persist_to=tmp_path, persist_keep=2) as group:
        nodes = [await group.add(slot) for slot in range(2)]
        await group.round(*nodes)
        training = Training(group, tmp_path)
        steps = [await training.until_whole() for _ in range(4)]
        await aeventually(lambda: len(whole_numbers(tmp_path)) <= 2, what="two steps stay")
        assert max(whole_numbers(tmp_path)) >= steps[-1].number


async def test_an_older_step_stays_until_all_members_have_found_the_newer_one(keep_dir: Path, tmp_path: Path) -> None:
    """A node that is cut off may complete a step of a round that is over. The next round restores an older one."""
    shared, late = tmp_path / "shared", tmp_path / "late"
    shared.mkdir()
    async with keeper_group(keep_dir, persist_keep=1, persist_every_s=3600.0) as group:
        first = await group.add(0, persist_to=shared)
        await aeventually(lambda: first.client.persist.is_listed, what="the directory of the job")
        # A file system of a network: one node sees later what is in it.
        shutil.copytree(shared, late)
        second = await group.add(1, persist_to=late)
        await aeventually(lambda: second.client.persist.is_listed, what="the directory, as the other node sees it")
        await group.round(first, second)
        await Training(group, shared).publish()
        older, newer = (group.step(number) for number in (100, 200))
        for seen in (shared, late):
            path_of(seen, older).mkdir()
        await until_listed(first, 1)
        await until_listed(second, 1)
        path_of(shared, newer).mkdir()
        await until_listed(first, 2)
        await until_listed(second, 2)
        await until_listed(first, 3)
        assert path_of(shared, older).exists()
        path_of(late, newer).mkdir()
        await until_listed(second, 3)
        await aeventually(lambda: not path_of(shared, older).exists(), what="the older step is removed")
        assert path_of(shared, newer).exists()


async def until_listed(node: GroupNode, number: int) -> None:
    """Return when this keeper has listed its directory once more."""
    node.client.list_again(number)
    await aeventually(lambda: node.client.persist.list_number == number, what="a list")


async def test_higher_steps_of_another_branch_stay_until_the_training_has_passed_them(
    keep_dir: Path, tmp_path: Path
) -> None:
    """The training begins anew when nothing could read the directory at its start."""
    async with keeper_group(keep_dir, persist_to=tmp_path, persist_keep=2, first_round=10) as group:
        nodes = [await group.add(slot) for slot in range(2)]
        await group.round(*nodes)
        training = Training(group, tmp_path)
        await training.until_whole()
        higher = [path_of(tmp_path, KeptStep(Lineage(9, "branch"), number, 2)) for number in (500, 510, 520)]
        for path in higher:
            path.mkdir()
        for _ in range(3):
            await training.until_whole()
        await aeventually(lambda: len(whole_numbers(tmp_path)) <= 4, what="two of each branch stay")
        assert [path.exists() for path in higher] == [False, True, True]
        training.number = 600
        for _ in range(2):
            await training.until_whole()
        await aeventually(lambda: not any(path.exists() for path in higher), what="the training has passed them")


async def test_a_restored_step_that_the_workers_read_is_not_removed(keep_dir: Path, tmp_path: Path) -> None:
    async with keeper_group(keep_dir, persist_to=tmp_path, persist_keep=3) as group:
        # Two more steps may become whole before the round begins: the one that is written, and the last committed one.
        nodes = [await group.add(slot) for slot in range(2)]
        await group.round(*nodes)
        training = Training(group, tmp_path)
        await training.until_whole()
        used = group.step(max(whole_numbers(tmp_path)))
        await group.round(*nodes, in_place=PersistedStep(RUN, used))
        for node in nodes:
            assert node.kept == path_of(tmp_path, used)
        newer = {(await training.until_whole()).number for _ in range(5)}
        await aeventually(lambda: len(whole_numbers(tmp_path)) <= 4, what="older steps are removed")
        assert len(newer) == 5
        assert path_of(tmp_path, used).exists()


async def test_steps_that_earlier_rounds_wrote_at_their_end_go_though_no_further_one_is_written(
    keep_dir: Path, tmp_path: Path
) -> None:
    """A job that is suspended before a step is due writes one step each time."""
    steps = [KeptStep(Lineage(number, "ended"), number, 1) for number in range(1, 6)]
    options = {"persist_to": tmp_path, "persist_keep": 2, "persist_every_s": 3600.0}
    async with keeper_group(keep_dir, first_round=len(steps) + 1, **options) as group:
        node = await group.add(0)
        await aeventually(lambda: node.client.persist.is_listed, what="the directory of the job")
        for step in steps:
            path_of(tmp_path, step).mkdir()
        node.client.list_again(1)
        await aeventually(lambda: len(node.client.persisted_steps()) == len(steps), what="the list")
        await group.round(node, in_place=PersistedStep(RUN, steps[-1]))
        await aeventually(lambda: len(whole_numbers(tmp_path)) <= 2, what="two steps stay")
        assert whole_numbers(tmp_path) == [4, 5]
