"""Errors that authors of scripts make, with real keepers: each is one sentence with its cure, and is in the status."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from testing.waiting import aeventually
from tests.integration.keep.keeper_group import keeper_group
from tests.integration.keep.keepers import keeper, wait_until_held
from tests.integration.keep.parts import FILES, part_of, publish, write_files


def in_place(incoming: Path, number: int) -> None:
    write_files(incoming / f"step-{number}", FILES)


def file_in_place(incoming: Path, number: int) -> None:
    (incoming / f"step-{number}").write_bytes(b"state")


def renamed_file(incoming: Path, number: int) -> None:
    (incoming / "tmp").write_bytes(b"state")
    (incoming / "tmp").rename(incoming / f"step-{number}")


def renamed_to_an_almost_right_name(incoming: Path, number: int) -> None:
    publish(incoming, f"step_{number}")


def made_under_an_almost_right_name(incoming: Path, number: int) -> None:
    write_files(incoming / f"Step-{number}", FILES)


def saved_as_a_file_with_a_suffix(incoming: Path, number: int) -> None:
    (incoming / f"step-{number}.pt").write_bytes(b"state")


@pytest.mark.parametrize(
    ("act", "name", "why"),
    [
        (in_place, "step-1", "was made under this name"),
        (file_in_place, "step-1", "is a file"),
        (renamed_file, "step-1", "is not a directory"),
        (renamed_to_an_almost_right_name, "'step_1'", "is neither step-<N> nor step-<N>.<i>-of-<m>"),
        (made_under_an_almost_right_name, "'Step-1'", "is neither step-<N> nor step-<N>.<i>-of-<m>"),
        (saved_as_a_file_with_a_suffix, "'step-1.pt'", "is neither step-<N> nor step-<N>.<i>-of-<m>"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
async def test_an_error_at_each_step_is_one_sentence_while_the_round_runs_and_is_in_the_status(
    keep_dir: Path, act: Callable[[Path, int], None], name: str, why: str
) -> None:
    async with keeper(keep_dir) as client:
        incoming = await client.begin()
        for number in range(1, 200):
            act(incoming, number)
        await aeventually(lambda: client.progress.degraded, what="the error is in the status")
        assert await client.seal() == {}
        assert client.notices == [client.progress.degraded]
        assert name in client.notices[0]
        assert why in client.notices[0]
        assert "rename" in client.notices[0]


async def test_a_step_that_is_renamed_from_another_directory_of_the_volume_is_right(keep_dir: Path) -> None:
    async with keeper(keep_dir) as client:
        incoming = await client.begin()
        write_files(keep_dir.parent / "elsewhere", FILES).rename(incoming / "step-1")
        write_files(incoming / "drafts" / "2", FILES).rename(incoming / "step-2")
        await wait_until_held(client, part_of(2))
        assert set(client.holdings) == {part_of(1).step, part_of(2).step}
        assert (client.notices, client.progress.degraded) == ([], "")


@pytest.mark.parametrize("lower", [5, 1], ids=["lower", "lowest"])
async def test_numbers_that_fall_are_named_until_a_higher_one_is_committed(keep_dir: Path, lower: int) -> None:
    async with keeper_group(keep_dir) as group:
        await group.round(await group.add(0))
        (node,) = group.members
        node.publish("step-9", FILES)
        await group.until_committed(group.step(9))
        for number in range(lower, 9):
            node.publish(f"step-{number}", FILES)
        await aeventually(lambda: "refused" in node.client.progress.degraded, what="the error is in the status")
        assert node.client.progress.degraded == (
            f"step-{lower} is refused: step 9 was published before it in this round, and numbers must grow; "
            "count the steps of the whole training, not those of an epoch"
        )
        node.publish("step-10", FILES)
        await group.until_committed(group.step(10))
        await aeventually(lambda: "refused" not in node.client.progress.degraded, what="the end of the error")
        assert [notice for notice in node.notices if "refused" in notice] == node.notices
        assert len(node.notices) == 1


async def test_a_number_that_falls_below_a_step_that_waits_for_its_copies_is_named(keep_dir: Path) -> None:
    async with keeper(keep_dir) as client:
        incoming = await client.begin()
        publish(incoming, "step-9.0-of-2")
        await wait_until_held(client, part_of(9, 0, 2))
        publish(incoming, "step-5.0-of-2")
        await aeventually(lambda: client.notices, what="the error is reported")
        assert client.notices[0].startswith("step-5.0-of-2 is refused: step 9 was published before it in this round")
        assert set(client.holdings) == {part_of(9, 0, 2).step}


async def test_a_step_that_each_worker_of_a_node_publishes_is_reported_once_and_kept(keep_dir: Path) -> None:
    async with keeper(keep_dir) as client:
        incoming = await client.begin()
        for number in range(1, 4):
            publish(incoming, f"step-{number}")
            await wait_until_held(client, part_of(number))
            publish(incoming, f"step-{number}")
            await aeventually(lambda number=number: not (incoming / f"step-{number}").exists(), what="it is taken")
        await client.seal()
        assert part_of(3).step in client.holdings
        assert ["let one worker publish it" in notice for notice in client.notices] == [True]
        assert client.progress.degraded == ""


async def test_a_node_whose_numbers_grow_behind_the_commits_of_others_has_no_error(keep_dir: Path) -> None:
    async with keeper_group(keep_dir) as group:
        await group.round(await group.add(0), await group.add(1))
        fast, slow = group.members
        fast.publish("step-9", FILES)
        await group.until_committed(group.step(9, 1))
        for number in (5, 6):
            slow.publish(f"step-{number}", FILES)
        await aeventually(lambda: slow.client.progress.skipped == 2, what="both are skipped")
        assert (slow.notices, slow.client.progress.degraded) == ([], "")
        slow.publish("step-6", FILES)
        await aeventually(lambda: slow.notices, what="the number that does not grow is reported")


@pytest.mark.parametrize("leader", [0, 1], ids=["its leader", "another leader"])
async def test_a_part_that_no_rank_publishes_is_named_at_the_leader(keep_dir: Path, leader: int) -> None:
    async with keeper_group(keep_dir) as group:
        nodes = [await group.add(slot) for slot in range(2)]
        await group.round(*nodes, leads=nodes[leader])
        for number in range(10, 30):
            nodes[0].publish(f"step-{number}.0-of-2", {"part0": os.urandom(100)})
            await aeventually(
                lambda number=number: group.step(number) in nodes[0].client.holdings, what="the step is taken"
            )
        await aeventually(lambda: nodes[leader].client.progress.degraded, what="the missing part is in the status")
        assert nodes[leader].client.progress.degraded.startswith("no node has part 1 of 2 of step 10, so no newer step")
        assert nodes[leader].notices == [nodes[leader].client.progress.degraded]
        assert nodes[1 - leader].notices == []


async def test_a_part_that_comes_late_ends_the_remark_with_the_next_commit(keep_dir: Path) -> None:
    async with keeper_group(keep_dir) as group:
        first, second = [await group.add(slot) for slot in range(2)]
        await group.round(first, second)
        for number in range(10, 20):
            first.publish(f"step-{number}.0-of-2", {"part0": os.urandom(100)})
            await aeventually(lambda number=number: group.step(number) in first.client.holdings, what="it is taken")
        await aeventually(lambda: first.client.progress.degraded, what="the missing part is in the status")
        group.publish(20)
        await group.until_committed(group.step(20))
        await aeventually(lambda: first.client.progress.degraded == "", what="the end of the error")


async def test_a_hostile_script_with_all_errors_at_once_gets_few_printable_sentences(keep_dir: Path) -> None:
    async with keeper(keep_dir) as client:
        incoming = await client.begin()
        for number in range(1, 500):
            for act in (in_place, made_under_an_almost_right_name, saved_as_a_file_with_a_suffix):
                act(incoming, number)
            publish(incoming, f"step-{number}\x1b[2J\n{'x' * 200}")
        publish(incoming, "step-700")
        await wait_until_held(client, part_of(700))
        await client.seal()
        assert len(client.notices) <= 6
        assert all(notice.isprintable() and len(notice) < 400 for notice in client.notices)
        assert client.progress.degraded.isprintable()
