"""Real keepers of several nodes: what one node publishes outlives the loss of it."""

import asyncio
import contextlib
import itertools
import os
import signal
import socket
from pathlib import Path

import pytest

from elasticjob_agent.keep.keeper.errors import RequestRefused
from elasticjob_agent.keep.keeper.messages import LingerRequest
from testing.waiting import aeventually
from tests.integration.keep.keeper_group import HOST, GroupNode, KeeperGroup, keeper_group
from tests.integration.keep.parts import contents

MIB = 1 << 20
WHOLE = frozenset({0, 1})


def merged(parts: dict[int, dict[str, bytes]]) -> dict[str, bytes]:
    """Return the files of a whole step."""
    return {name: data for files in parts.values() for name, data in files.items()}


async def pair(group: KeeperGroup) -> None:
    """Start a round of two nodes."""
    await group.round(await group.add(0), await group.add(1))


async def test_a_step_is_copied_to_the_peer_and_committed_at_all_nodes(keep_dir: Path) -> None:
    async with keeper_group(keep_dir) as group:
        await pair(group)
        parts = group.publish(10)
        await group.until_committed(group.step(10))
        for node in group.members:
            assert node.client.holdings == {group.step(10): WHOLE}
            assert {index: node.files(group.step(10), index) for index in parts} == parts
            await aeventually(lambda node=node: node.client.progress.copies == 1)
            assert (node.client.progress.degraded, node.client.progress.skipped) == ("", 0)


async def test_each_commit_drops_what_is_older(keep_dir: Path) -> None:
    async with keeper_group(keep_dir) as group:
        await pair(group)
        for number in range(1, 6):
            group.publish(number)
            await group.until_committed(group.step(number))
        for node in group.members:
            await aeventually(lambda node=node: node.client.holdings == {group.step(5): WHOLE})


async def test_commits_go_on_while_one_node_publishes_each_step_later_than_the_other(keep_dir: Path) -> None:
    async with keeper_group(keep_dir) as group:
        await pair(group)
        fast, slow = group.members

        async def train() -> None:
            for number in itertools.count(1):
                fast.publish(f"step-{number + 3}.0-of-2", {"part0": b"fast"})
                slow.publish(f"step-{number}.1-of-2", {"part1": b"slow"})
                await asyncio.sleep(0.1)  # a step of the training

        training = asyncio.create_task(train())
        try:
            await aeventually(lambda: slow.committed is not None and slow.committed.number >= 10)
        finally:
            training.cancel()


async def test_commits_go_on_after_a_step_of_which_one_of_two_workers_had_no_room(keep_dir: Path) -> None:
    async with keeper_group(keep_dir) as group:
        await pair(group)
        for number, missing in ((1, None), (2, 1), (3, None), (4, 2), (5, None)):
            for index in {0, 1, 2, 3} - {missing}:
                group.members[index // 2].publish(f"step-{number}.{index}-of-4", {f"part{index}": b"x"})
            if missing is None:
                await group.until_committed(group.step(number, 4))
        assert all(node.client.progress.degraded == "" for node in group.members)


async def test_three_nodes_with_two_copies_hold_everything(keep_dir: Path) -> None:
    async with keeper_group(keep_dir, copies=2) as group:
        await group.round(*[await group.add(slot) for slot in range(3)])
        group.publish(10)
        await group.until_committed(group.step(10))
        for node in group.members:
            assert node.client.holdings == {group.step(10): frozenset(range(3))}


async def test_a_lost_node_is_replaced_and_its_parts_are_fetched_and_copied_again(keep_dir: Path) -> None:
    async with keeper_group(keep_dir) as group:
        await pair(group)
        parts = group.publish(10)
        step = group.step(10)
        await group.until_committed(step)
        first, second = group.members
        await group.lose(second)
        third = await group.add(1)
        await group.round(first, third)
        assert third.kept is not None
        assert contents(third.kept) == merged(parts)
        await group.until_committed(step)
        assert third.client.holdings == {step: WHOLE}
        later = group.publish(20)
        await group.until_committed(group.step(20))
        assert third.files(group.step(20), 0) == later[0]


async def test_the_parts_of_a_lost_node_are_copied_to_others_at_the_next_round(keep_dir: Path) -> None:
    async with keeper_group(keep_dir) as group:
        await group.round(*[await group.add(slot) for slot in range(3)])
        group.publish(10)
        step = group.step(10)
        await group.until_committed(step)
        await group.lose(group.members[2])
        await group.round(*group.members)
        await group.until_committed(step)
        for node in group.members:
            assert node.client.holdings[step] == frozenset(range(3))


async def test_another_leader_goes_on_after_the_leaders_keeper_was_killed(keep_dir: Path) -> None:
    async with keeper_group(keep_dir) as group:
        await group.round(*[await group.add(slot) for slot in range(3)])
        group.publish(10)
        await group.until_committed(group.step(10))
        leader, *others = group.members
        group.publish(20, 2 * MIB)
        leader.kill()
        await group.until_committed(group.step(20))
        group.set_peers(others[0])
        group.publish(30)
        await group.until_committed(group.step(30))


async def test_a_keeper_that_is_killed_comes_back_at_its_port_and_the_copy_goes_on(keep_dir: Path) -> None:
    async with keeper_group(keep_dir, bandwidth=2 * MIB) as group:
        await pair(group)
        sender, receiver = group.members
        port = receiver.client.port
        parts = group.publish(10, 8 * MIB)
        step = group.step(10)
        partial = receiver.volume / "part" / f"{step}.0" / "part0"
        await aeventually(lambda: partial.exists() and partial.stat().st_size > 0, what="the copy has begun")
        receiver.kill()
        await group.until_committed(step)
        assert (receiver.client.restarts, receiver.client.port) == (1, port)
        assert receiver.files(step, 0) == parts[0]
        assert sender.files(step, 1) == parts[1]


async def test_no_other_program_can_take_the_port_of_a_keeper_that_has_ended(keep_dir: Path) -> None:
    async with keeper_group(keep_dir) as group:
        await pair(group)
        receiver = group.members[1]
        pid, port = receiver.client.pid or 0, receiver.client.port
        receiver.kill()
        # Its agent, which is the loop of this test, starts the next one later.
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)  # noqa: ASYNC222 - that loop shall stand still
        with contextlib.ExitStack() as rival:
            with contextlib.suppress(OSError):
                rival.enter_context(socket.create_server((HOST, port)))
            group.publish(10)
            await group.until_committed(group.step(10))
            assert (receiver.client.restarts, receiver.client.port) == (1, port)


async def test_a_sender_that_is_killed_in_the_middle_of_a_copy_goes_on(keep_dir: Path) -> None:
    async with keeper_group(keep_dir, bandwidth=2 * MIB) as group:
        await pair(group)
        sender, receiver = group.members
        parts = group.publish(10, 8 * MIB)
        step = group.step(10)
        partial = receiver.volume / "part" / f"{step}.0" / "part0"
        await aeventually(lambda: partial.exists() and partial.stat().st_size > 0, what="the copy has begun")
        sender.kill()
        await group.until_committed(step)
        assert receiver.files(step, 0) == parts[0]


async def test_the_copy_of_a_step_that_is_dropped_ends_and_the_next_step_is_copied(keep_dir: Path) -> None:
    async with keeper_group(keep_dir, bandwidth=MIB // 64) as group:
        await pair(group)
        _, receiver = group.members
        group.publish(10, 64 * MIB)  # its copy takes more than an hour
        partial = receiver.volume / "part" / f"{group.step(10)}.0" / "part0"
        await aeventually(lambda: partial.exists() and partial.stat().st_size > 0, what="the copy has begun")
        for node in group.members:
            await node.client.drop((group.step(10),))
        group.publish(11)
        await group.until_committed(group.step(11))
        for node in group.members:
            assert node.client.holdings == {group.step(11): WHOLE}
            assert deleted_files(node.client.pid) == []


def deleted_files(pid: int | None) -> list[str]:
    """Return the files that a process has open and that have no name any more."""
    names = []
    for descriptor in Path("/proc", str(pid), "fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            names.append(str(descriptor.readlink()))
    return [name for name in names if name.endswith("(deleted)") and "/part" in name]


async def test_a_full_peer_is_named_and_the_node_keeps_what_the_rules_let_it_keep(keep_dir: Path) -> None:
    async with keeper_group(keep_dir) as group:
        first, second = await group.add(0), await group.add(1, size_limit=MIB)
        await group.round(first, second)
        for number in range(1, 6):
            first.publish(f"step-{number}", {"state": os.urandom(2 * MIB)})
            await aeventually(lambda number=number: group.step(number, 1) in first.client.holdings)
        await aeventually(lambda: "no room for a copy on slot 1" in first.client.progress.degraded)
        await aeventually(lambda: set(first.client.holdings) == {group.step(1, 1), group.step(5, 1)})
        assert first.committed is None
        await aeventually(lambda: first.client.progress.skipped == 3, what="the steps that no copy has")


@pytest.mark.parametrize(
    ("lost", "is_whole"), [((0, 1), True), ((0, 2), False)], ids=["no pair", "a node and its replica"]
)
async def test_two_lost_nodes_leave_a_whole_step_or_none(
    keep_dir: Path, lost: tuple[int, int], *, is_whole: bool
) -> None:
    async with keeper_group(keep_dir) as group:
        nodes = [await group.add(slot) for slot in range(4)]
        await group.round(*nodes)
        parts = group.publish(10)
        await group.until_committed(group.step(10))
        for slot in lost:
            await group.lose(nodes[slot])
        survivors = list(group.members)
        await group.round(*survivors, *[await group.add(slot) for slot in lost])
        for node in group.members:
            assert (node.kept is not None) == is_whole
            assert node.kept is None or contents(node.kept) == merged(parts)


async def test_a_node_that_leaves_is_drained_when_the_others_have_committed(keep_dir: Path) -> None:
    async with keeper_group(keep_dir) as group:
        await pair(group)
        first, leaver = group.members
        first.kill(signal.SIGSTOP)
        leaver.publish("step-10", {"state": b"only here"})
        await aeventually(lambda: group.step(10, 1) in leaver.client.holdings)
        await leaver.client.seal()
        first.kill(signal.SIGCONT)
        third = await group.add(2)
        await group.begin(first, third, others=[leaver])
        assert group.lineage is not None
        request = LingerRequest(group.history, group.lineage, 30.0)
        for node in group.members:
            node.client.report_start()
        assert await leaver.client.linger(request)
        for node in group.members:
            assert node.kept is not None
            assert contents(node.kept) == {"state": b"only here"}


async def test_a_node_that_no_one_drains_leaves_at_its_deadline(keep_dir: Path) -> None:
    async with keeper_group(keep_dir) as group:
        await pair(group)
        group.publish(10)
        await group.until_committed(group.step(10))
        leaver = group.members[1]
        await leaver.client.seal()
        assert group.lineage is not None
        history = group.history.with_lineage(group.lineage)
        assert not await leaver.client.linger(LingerRequest(history, None, 0.1))
        await leaver.client.drop((group.step(10),))
        assert await leaver.client.linger(LingerRequest(history, None, 30.0))


async def test_a_node_with_another_secret_gets_nothing_and_puts_nothing(keep_dir: Path) -> None:
    async with keeper_group(keep_dir) as group:
        first, stranger = await group.add(0), await group.add(1, secret="00" * 32)
        await group.round(first, stranger)
        group.publish(10)
        step = group.step(10)
        for node in group.members:
            await aeventually(lambda node=node: node.client.holdings)
        with pytest.raises(RequestRefused, match="no holder could send part"):
            await stranger.client.fetch(step, {0: [first.address]}, 10.0)
        assert first.client.holdings == {step: {0}}
        assert stranger.client.holdings == {step: {1}}
        assert (first.committed, stranger.committed) == (None, None)


async def test_a_fetch_of_a_step_that_no_one_has_fails_with_its_reason(keep_dir: Path) -> None:
    async with keeper_group(keep_dir) as group:
        await pair(group)
        first, second = group.members
        with pytest.raises(RequestRefused, match="no holder could send part"):
            await first.client.fetch(group.step(10), {0: [second.address], 1: []}, 10.0)


async def test_a_seal_ends_a_fetch(keep_dir: Path) -> None:
    async with keeper_group(keep_dir) as group:
        await pair(group)
        first, second = group.members
        second.publish("step-10", {"state": os.urandom(MIB)})
        await aeventually(lambda: second.client.holdings)
        second.kill(signal.SIGSTOP)
        fetch = asyncio.create_task(first.client.fetch(group.step(10, 1), {0: [second.address]}, 30.0))
        await asyncio.sleep(0)
        await first.client.seal()
        with pytest.raises(RequestRefused, match="ended by another request"):
            await fetch
        second.kill(signal.SIGCONT)


async def test_a_peer_that_hangs_delays_no_taking(keep_dir: Path) -> None:
    async with keeper_group(keep_dir) as group:
        await pair(group)
        first, second = group.members
        second.kill(signal.SIGSTOP)
        for number in range(1, 6):
            first.publish(f"step-{number}", {"state": os.urandom(MIB)})
            await aeventually(lambda number=number: group.step(number, 1) in first.client.holdings)
        await aeventually(lambda: set(first.client.holdings) == {group.step(1, 1), group.step(5, 1)})
        assert first.client.missed_seals == 0
        second.kill(signal.SIGCONT)
        await group.until_committed(group.step(5, 1), first)


async def test_idle_keepers_never_wake_up(keep_dir: Path) -> None:
    async with keeper_group(keep_dir) as group:
        await pair(group)
        group.publish(10)
        await group.until_committed(group.step(10))

        def switches() -> int:
            tasks = [each for node in group.members for each in Path(f"/proc/{node.client.pid}/task").iterdir()]
            lines = [line for task in tasks for line in (task / "status").read_text().splitlines()]
            return sum(int(line.split()[1]) for line in lines if "ctxt_switches" in line)

        async def is_idle() -> bool:
            before = switches()
            await asyncio.sleep(1.5)  # a keeper that polled would wake at least once
            return before == switches()

        sleeps: bool = await aeventually(is_idle, what="both keepers sleep for more than a second")
        assert sleeps


@pytest.mark.parametrize("sizes", [(5, 9), (9, 9)])
async def test_a_step_with_different_files_of_one_name_is_never_committed_and_degraded_until_a_good_one(
    keep_dir: Path, sizes: tuple[int, int]
) -> None:
    async with keeper_group(keep_dir) as group:
        await pair(group)
        for index, node in enumerate(group.members):
            node.publish(f"step-8.{index}-of-2", {"state.pt": bytes([index]) * sizes[index]})
        # The first member that has both parts drops them. So the other one may never see both.
        finder = await aeventually(
            lambda: next((node for node in group.members if node.client.progress.degraded), None), what="it is found"
        )
        assert isinstance(finder, GroupNode)
        assert "of step 8 have different files 'state.pt'" in finder.client.progress.degraded
        assert "into the name of the file" in finder.client.progress.degraded
        await aeventually(lambda: group.step(8) not in finder.client.holdings, what="its finder drops it")
        group.publish(9)
        committed = [await aeventually(lambda node=node: node.committed, what="a commit") for node in group.members]
        assert committed == [group.step(9)] * 2
        for node in group.members:
            await aeventually(lambda node=node: not node.client.progress.degraded)
            await aeventually(lambda node=node: group.step(8) not in node.client.holdings)


async def test_a_node_alone_commits_no_step_with_different_files_of_one_name(keep_dir: Path) -> None:
    async with keeper_group(keep_dir) as group:
        node = await group.add(0)
        await group.round(node)
        for index in range(2):
            node.publish(f"step-8.{index}-of-2", {"state.pt": bytes([index]) * 9})
        await aeventually(lambda: "different files 'state.pt'" in node.client.progress.degraded, what="it is found")
        group.publish(9)
        assert await aeventually(lambda: node.committed, what="a commit") == group.step(9)


async def test_a_part_with_a_list_longer_than_a_message_is_refused_and_later_steps_are_committed(
    keep_dir: Path,
) -> None:
    async with keeper_group(keep_dir) as group:
        await pair(group)
        first, second = group.members
        names = [f"{'d' * 240}/{'e' * 240}/{number:04}{'n' * 240}" for number in range(6000)]
        first.publish("step-1.0-of-2", dict.fromkeys(names, b""))
        second.publish("step-1.1-of-2", {"part1": b"x"})
        await aeventually(lambda: first.client.progress.degraded, what="the cause is shown")
        assert "part 0 of step 1 is too large: the list of its files has " in first.client.progress.degraded
        assert "write fewer files or shorter names" in first.client.progress.degraded
        assert any("step-1.0-of-2 is refused" in notice for notice in first.notices)
        group.publish(2)
        await group.until_committed(group.step(2))
        await aeventually(lambda: not first.client.progress.degraded, what="the trouble ends")
