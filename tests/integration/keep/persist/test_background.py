"""Keepers of several nodes write committed steps to a shared directory, in the background."""

import asyncio
import contextlib
import os
import signal
from pathlib import Path

import psutil
import pytest

from elasticjob_agent.keep.keeper.errors import RequestRefused
from elasticjob_api.kept_steps import KeptStep, Lineage, PersistedStep
from testing.waiting import aeventually
from tests.integration.keep.keeper_group import GroupNode, keeper_group
from tests.integration.keep.keepers import RUN, keeper, wait_until_held
from tests.integration.keep.namespaces import run_in_small_tmpfs
from tests.integration.keep.parts import FILES, contents, part_of, publish
from tests.integration.keep.persist.persisting_group import Training, path_of, until_whole, whole_numbers


def writer_of(node: GroupNode) -> psutil.Process:
    """Return the process that writes to the shared directory for this node."""
    children = psutil.Process(node.client.pid).children()
    (found,) = [child for child in children if "elasticjob_agent.keep.persist" in child.cmdline()]
    return found


def merged(parts: dict[int, dict[str, bytes]]) -> dict[str, bytes]:
    """Return the files of all parts."""
    return {name: data for part in parts.values() for name, data in part.items()}


async def test_the_parts_of_a_committed_step_become_one_directory(keep_dir: Path, tmp_path: Path) -> None:
    async with keeper_group(keep_dir, persist_to=tmp_path) as group:
        nodes = [await group.add(slot) for slot in range(3)]
        await group.round(*nodes)
        parts = group.publish(1)
        await group.until_committed(group.step(1))
        path = await until_whole(tmp_path, group.step(1))
        assert contents(path) == merged(parts)
        for node in nodes:
            await aeventually(
                lambda node=node: PersistedStep(RUN, group.step(1)) in node.client.persisted_steps(),
                what="each node knows of it",
            )
            assert (node.client.persist.error, node.client.persist.failures) == ("", 0)
            assert not [*(node.volume / "persist").iterdir()]


async def test_one_node_writes_a_step_that_each_node_has(keep_dir: Path, tmp_path: Path) -> None:
    async with keeper_group(keep_dir, persist_to=tmp_path) as group:
        nodes = [await group.add(slot) for slot in range(3)]
        await group.round(*nodes)
        for node in nodes:
            node.publish("step-1", {"state": b"all" * 500_000})
        await group.until_committed(group.step(1, parts=1))
        assert contents(await until_whole(tmp_path, group.step(1, parts=1))) == {"state": b"all" * 500_000}
        written = [writer_of(node).io_counters().write_chars for node in nodes]
        assert sum(count > 1 << 20 for count in written) == 1, f"only one node writes it: {written}"


async def test_nothing_is_persisted_before_its_time(keep_dir: Path, tmp_path: Path) -> None:
    async with keeper_group(keep_dir, persist_to=tmp_path, persist_every_s=3600.0) as group:
        nodes = [await group.add(slot) for slot in range(2)]
        await group.round(*nodes)
        group.publish(1)
        await group.until_committed(group.step(1))
        group.publish(2)
        await group.until_committed(group.step(2))
        assert whole_numbers(tmp_path) == []


async def test_another_leader_goes_on(keep_dir: Path, tmp_path: Path) -> None:
    async with keeper_group(keep_dir, persist_to=tmp_path) as group:
        nodes = [await group.add(slot) for slot in range(3)]
        await group.round(*nodes)
        training = Training(group, tmp_path)
        await training.until_whole()
        group.set_peers(nodes[1])
        await training.until_whole()


async def test_nodes_with_different_file_systems_persist_nothing_and_say_why(keep_dir: Path, tmp_path: Path) -> None:
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
    async with keeper_group(keep_dir, persist_to=tmp_path / "one") as group:
        nodes = [await group.add(0), await group.add(1, persist_to=tmp_path / "other")]
        await group.round(*nodes)
        group.publish(1)
        await group.until_committed(group.step(1))
        await aeventually(lambda: nodes[0].client.persist.error, what="an error")
        assert "keep.persistTo" in nodes[0].client.persist.error
        assert "is not the same file system on slot 0 and slot 1" in nodes[0].client.persist.error
        assert "mount one shared volume there on all nodes" in nodes[0].client.persist.error
        assert whole_numbers(tmp_path / "one") == whole_numbers(tmp_path / "other") == []


async def test_a_node_that_was_started_without_the_directory_is_named(keep_dir: Path, tmp_path: Path) -> None:
    """An older operator replaces a pod without the variables of persistTo."""
    async with keeper_group(keep_dir) as group:
        nodes = [await group.add(0, persist_to=tmp_path), await group.add(1)]
        await group.round(*nodes)
        group.publish(1)
        await group.until_committed(group.step(1))
        await aeventually(lambda: nodes[0].client.persist.error, what="an error")
        assert nodes[0].client.persist.error.startswith(f"keep.persistTo {tmp_path}: slot 1 has no such directory; ")
        assert whole_numbers(tmp_path) == []


async def test_a_leader_that_was_started_without_the_directory_reports_that_nothing_is_persisted(
    keep_dir: Path, tmp_path: Path
) -> None:
    async with keeper_group(keep_dir) as group:
        leader, other = await group.add(0), await group.add(1, persist_to=tmp_path)
        await group.round(leader, other)
        group.publish(1)
        await group.until_committed(group.step(1))
        await aeventually(lambda: leader.client.persist.error, what="an error")
        assert (
            "the leader of the round was started without keep.persistTo; delete its pod" in leader.client.persist.error
        )
        assert whole_numbers(tmp_path) == []
        group.set_peers(other)  # which names the member without it
        await aeventually(lambda: "slot 0 has no such directory" in other.client.persist.error, what="an error")
        await aeventually(lambda: not leader.client.persist.error, what="the error of the old leader ends")


async def test_a_leader_without_the_directory_among_others_without_it_reports_nothing(keep_dir: Path) -> None:
    async with keeper_group(keep_dir) as group:
        nodes = [await group.add(slot) for slot in range(2)]
        await group.round(*nodes)
        group.publish(1)
        await group.until_committed(group.step(1))
        assert [node.client.persist.error for node in nodes] == ["", ""]


async def test_a_directory_that_cannot_be_written_is_reported_and_tried_again(keep_dir: Path, tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.symlink_to("/proc/sys")  # no user may make a directory there
    async with keeper_group(keep_dir, persist_to=shared) as group:
        nodes = [await group.add(slot) for slot in range(2)]
        await group.round(*nodes)
        training = Training(group, shared)
        await training.publish()
        await aeventually(lambda: "cannot use" in nodes[0].client.persist.error, what="an error")
        (tmp_path / "usable").mkdir()
        shared.unlink()
        shared.symlink_to(tmp_path / "usable")
        await training.until_whole()
        await aeventually(lambda: not nodes[0].client.persist.error, what="the error ends")


async def test_a_directory_that_is_missing_at_first_is_used_later(keep_dir: Path, tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    async with keeper_group(keep_dir, persist_to=shared) as group:
        nodes = [await group.add(slot) for slot in range(2)]
        await group.round(*nodes)
        await aeventually(lambda: "No such file" in nodes[0].client.persist.error, what="an error")
        shared.mkdir()
        await Training(group, shared).until_whole()
        await aeventually(lambda: not nodes[0].client.persist.error, what="the error ends")


async def test_a_directory_without_the_step_that_was_there_is_not_used_until_it_has_it(
    keep_dir: Path, tmp_path: Path
) -> None:
    async with keeper_group(keep_dir, persist_to=tmp_path) as group:
        node = await group.add(0, persisted_step=100)
        await aeventually(lambda: node.client.persist.error, what="an error")
        assert node.client.persist.error.startswith(
            f"{tmp_path} has no step from 100 on, which status.keep.persistedStep"
        )
        assert not node.client.persist.is_listed
        path_of(tmp_path, KeptStep(Lineage(1, "before"), 100, 1)).mkdir()
        await aeventually(lambda: node.client.persist.is_listed, what="the list")
        assert not node.client.persist.error


async def test_the_next_keeper_uses_a_directory_in_which_lower_steps_have_replaced_the_one_that_was_there(
    keep_dir: Path, tmp_path: Path
) -> None:
    """A script may count anew in a later round."""
    async with keeper_group(keep_dir, persist_to=tmp_path) as group:
        first, later = KeptStep(Lineage(1, "before"), 100, 1), KeptStep(Lineage(2, "after"), 40, 1)
        node = await group.add(0, persisted_step=100)
        await aeventually(lambda: node.client.persist.error, what="the directory of the job")
        path_of(tmp_path, first).mkdir()
        await aeventually(lambda: node.client.persist.is_listed, what="the list")
        path_of(tmp_path, later).mkdir()
        path_of(tmp_path, first).rmdir()
        node.client.list_again(1)
        await aeventually(lambda: [*node.client.persisted_steps()] == [PersistedStep(RUN, later)], what="a later list")
        node.kill()
        node.client.list_again(2)
        await aeventually(
            lambda: node.client.persist.list_number == 2 or node.client.persist.error, what="news of the next keeper"
        )
        assert node.client.persist.error == ""


async def test_a_writer_that_hangs_delays_nothing_and_is_replaced(keep_dir: Path, tmp_path: Path) -> None:
    async with keeper_group(keep_dir, persist_to=tmp_path) as group:
        nodes = [await group.add(slot, stall_s=3.0) for slot in range(2)]
        await group.round(*nodes)
        training = Training(group, tmp_path)
        await training.until_whole()
        hung = writer_of(nodes[1])
        hung.send_signal(signal.SIGSTOP)

        def reports() -> bool:  # the error itself ends as soon as the next writer works
            return any("the file system has not answered for 3 s" in notice for notice in nodes[1].notices)

        while not reports():
            await training.publish()  # copies to peers go on
        await aeventually(lambda: not hung.is_running(), what="the end of the writer that hangs")
        assert nodes[1].client.persist.failures > 0
        await training.until_whole()
        await aeventually(lambda: not nodes[1].client.persist.error, what="the error ends")


async def test_a_round_does_not_wait_for_a_writer_that_hangs(keep_dir: Path, tmp_path: Path) -> None:
    async with keeper_group(keep_dir, persist_to=tmp_path) as group:
        nodes = [await group.add(slot) for slot in range(2)]
        await group.round(*nodes)
        training = Training(group, tmp_path)
        await training.until_whole()
        for node in nodes:
            writer_of(node).send_signal(signal.SIGSTOP)
        restored = await training.publish()
        await group.round(*nodes)
        assert [node.client.missed_seals for node in nodes] == [0, 0]
        assert all(node.kept is not None and node.kept.name == str(restored) for node in nodes)


async def test_a_killed_writer_and_a_killed_keeper_are_replaced(keep_dir: Path, tmp_path: Path) -> None:
    async with keeper_group(keep_dir, persist_to=tmp_path) as group:
        nodes = [await group.add(slot) for slot in range(2)]
        await group.round(*nodes)
        training = Training(group, tmp_path)
        await training.until_whole()
        writer_of(nodes[1]).kill()
        await training.until_whole()
        for node in reversed(nodes):
            node.kill()
            await training.until_whole()


async def test_the_next_keeper_writes_the_last_step_of_a_node_whose_keeper_is_killed_meanwhile(
    keep_dir: Path, tmp_path: Path
) -> None:
    async with keeper(keep_dir, persist_to=str(tmp_path)) as client:
        publish(await client.begin(), "step-1")
        await wait_until_held(client, part_of(1))
        assert await client.wait_listed(30.0)
        await client.seal()
        assert client.pid is not None
        os.kill(client.pid, signal.SIGSTOP)
        draining = asyncio.create_task(client.drain(part_of(1).step, (0,), 30.0))
        await asyncio.sleep(0)  # it is sent now
        os.kill(client.pid, signal.SIGKILL)
        await draining
        assert contents(path_of(tmp_path, part_of(1).step)) == FILES


async def test_the_writer_ends_with_its_keeper(keep_dir: Path, tmp_path: Path) -> None:
    async with keeper_group(keep_dir, persist_to=tmp_path) as group:
        node = await group.add(0)
        await aeventually(lambda: node.client.persist.is_listed, what="the list")
        writer = writer_of(node)
        node.kill()
        await aeventually(lambda: not writer.is_running(), what="the end of the writer")


async def test_a_step_that_is_not_there_is_not_found(keep_dir: Path, tmp_path: Path) -> None:
    async with keeper_group(keep_dir, persist_to=tmp_path) as group:
        node = await group.add(0)
        await group.round(node)
        await aeventually(lambda: node.client.persist.is_listed, what="the list")  # which makes the job's directory
        with pytest.raises(RequestRefused, match="does not exist on this node"):
            await node.client.fetch(group.step(9, parts=1), {}, 10.0, run=RUN)


def test_a_full_disk_stops_no_training_is_shown_and_is_used_again_when_it_has_room(
    keep_dir: Path, tmp_path: Path
) -> None:
    shared = tmp_path / "disk"

    async def act() -> None:
        async with keeper_group(keep_dir, persist_to=shared) as group:
            nodes = [await group.add(slot) for slot in range(2)]
            await group.round(*nodes)
            training = Training(group, shared)
            await training.until_whole()
            filler = shared / "of-another-program"
            with contextlib.suppress(OSError):
                filler.write_bytes(b"x" * (32 << 20))

            def reports() -> bool:
                return "No space left on device" in nodes[0].client.persist.error + nodes[1].client.persist.error

            while not reports():
                await training.publish()  # each is committed: copies go on
            assert sum(node.client.persist.failures for node in nodes) > 0
            restored = await training.publish()
            await group.round(*nodes)
            assert all(node.kept is not None and node.kept.name == str(restored) for node in nodes)
            filler.unlink()
            await training.until_whole()
            await aeventually(lambda: not any(node.client.persist.error for node in nodes), what="the errors end")

    run_in_small_tmpfs(shared, 16 << 20, act)


async def test_a_directory_that_cannot_be_listed_costs_a_keeper_one_timer(keep_dir: Path, shared: Path) -> None:
    unusable = shared.parent / "file"
    unusable.write_text("no directory")
    async with keeper_group(keep_dir, persist_to=shared) as group:
        first, second = await group.add(0), await group.add(1, persist_to=unusable)
        await group.round(first, second)
        training = Training(group, shared)
        training.group.publish(1, 1000)
        await group.until_committed(group.step(1))
        await first.client.wait_listed(30.0)
        await second.client.wait_listed(30.0)
        await group.lose(second)
        second = await group.add(1)  # with both, a step becomes whole
        await group.round(first, second)
        await training.until_whole()
        await group.lose(second)
        second = await group.add(1, persist_to=unusable)
        await group.round(first, second)
        before = psutil.Process(second.client.pid).num_threads()
        for _ in range(30):
            await training.publish()
        assert psutil.Process(second.client.pid).num_threads() < before + 10
