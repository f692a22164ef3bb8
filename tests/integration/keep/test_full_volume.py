"""A volume without room: the script meets the limit of its file system, and what is held stays."""

import errno
import os
import signal
from pathlib import Path

import pytest

from elasticjob_agent.keep.keeper.messages import BeginRequest
from elasticjob_agent.keep.volume.errors import VolumeFullError
from elasticjob_agent.keep.volume.volume import Volume
from testing.waiting import aeventually
from tests.integration.keep.keepers import RUN, WatchedClient, keeper, wait_until_taken
from tests.integration.keep.namespaces import run_in_small_tmpfs
from tests.integration.keep.parts import LINEAGE, contents, offer, part_of, publish, receive, take, write_files

MIB = 1 << 20


def test_the_newest_step_makes_room_for_the_next_and_the_oldest_stays(keep_dir: Path) -> None:
    async def act() -> None:
        async with keeper(keep_dir / "volume") as client:
            incoming = await client.begin()
            await publish_each(client, incoming, range(1, 6))
            assert part_of(1).step in client.holdings
            assert contents(await client.restore(part_of(1).step)) == {"state": bytes([1]) * (3 * MIB)}
            assert any("there is no room for one more step" in notice for notice in client.notices)

    run_in_small_tmpfs(keep_dir, 8 * MIB, act)


async def publish_each(client: WatchedClient, incoming: Path, numbers: range) -> None:
    """Publish steps of 3 MiB; for each the room that the keeper makes is enough."""
    for number in numbers:
        await aeventually(lambda: free(incoming) >= 3 * MIB, what=f"room for step {number}")
        publish(incoming, f"step-{number}", {"state": bytes([number]) * (3 * MIB)})
        taken = number - numbers[0] + 1
        await wait_until_taken(client, taken)


def free(directory: Path) -> int:
    found = os.statvfs(directory)
    return found.f_bavail * found.f_frsize


def test_a_script_that_fills_the_volume_loses_its_write_and_nothing_else(keep_dir: Path) -> None:
    async def act() -> None:
        async with keeper(keep_dir / "volume") as client:
            incoming = await client.begin()
            publish(incoming, "step-1", {"state": b"x" * MIB})
            await aeventually(lambda: client.holdings)
            (incoming / "tmp-2").mkdir()
            with pytest.raises(OSError, match=os.strerror(errno.ENOSPC)):
                (incoming / "tmp-2" / "state").write_bytes(b"y" * (20 * MIB))
            assert free(incoming) == 0
            (incoming / "tmp-2").rename(incoming / "step-2")  # its author has swallowed the error
            await wait_until_taken(client, 2)
            await client.seal()
            assert contents(await client.restore(part_of(1).step)) == {"state": b"x" * MIB}

    run_in_small_tmpfs(keep_dir, 8 * MIB, act)


def take_into_full_volume(keep_dir: Path) -> Volume:
    """Return a volume that has taken a part of one MiB, and has no room for its manifest."""
    volume = Volume(keep_dir / "volume", job="/jobs/a", run="run1")
    incoming = volume.begin_round(LINEAGE)
    write_files(incoming / "tmp", {"state": b"x" * MIB})
    with pytest.raises(OSError, match=os.strerror(errno.ENOSPC)):
        (incoming / "rest").write_bytes(b"y" * (20 * MIB))
    (incoming / "tmp").rename(incoming / "step-1")
    assert volume.take("step-1", part_of(1))
    return volume


def test_a_full_volume_takes_and_finds_parts_without_manifests_and_refuses_those_of_peers(keep_dir: Path) -> None:
    async def act() -> None:
        volume = take_into_full_volume(keep_dir)
        assert not list((volume.root / "held").rglob("*.json"))
        with pytest.raises(VolumeFullError, match="0 are free"):
            offer(volume, part_of(2), {"state": b"x"})
        volume.close()
        volume = Volume(keep_dir / "volume", job="/jobs/a", run="run1")
        assert volume.holdings() == {part_of(1).step: {0}}
        volume.end_round(LINEAGE)
        volume.trash.empty()
        assert receive(volume, part_of(2), {"state": b"x"})

    run_in_small_tmpfs(keep_dir, 8 * MIB, act)


@pytest.mark.parametrize("linked", ["kept", "pinned", "unpinned"])
def test_a_full_volume_finds_a_part_without_a_manifest_that_the_keeper_before_has_linked(
    keep_dir: Path, linked: str
) -> None:
    async def act() -> None:
        volume = take_into_full_volume(keep_dir)
        kept = volume.link(part_of(1).step, [0])
        if linked != "kept":
            pinned = volume.pins.add(volume.open_part(part_of(1).step, 0))
        if linked == "unpinned":
            volume.pins.remove([pinned])
        assert not list((volume.root / "held").rglob("*.json"))
        volume.close()
        assert Volume(keep_dir / "volume", job="/jobs/a", run="run1").holdings() == {part_of(1).step: {0}}
        assert contents(kept) == {"state": b"x" * MIB}, "the workers still read it"

    run_in_small_tmpfs(keep_dir, 8 * MIB, act)


def test_a_full_volume_of_an_earlier_run_is_that_of_the_present_one_only_when_its_record_is_written(
    keep_dir: Path,
) -> None:
    """Else the next keeper takes the steps of the present run for those of the earlier one, and deletes them."""

    async def act() -> None:
        volume = take_into_full_volume(keep_dir)
        with pytest.raises(VolumeFullError, match=r"cannot write .*volume\.json"):
            volume.adopt_run("run2")
        volume.trash.empty()
        volume.adopt_run("run2")
        assert take(volume, part_of(2))
        volume.close()
        volume = Volume(keep_dir / "volume", job="/jobs/a")
        volume.adopt_run("run2")
        assert volume.holdings() == {part_of(2).step: {0}}

    run_in_small_tmpfs(keep_dir, 8 * MIB, act)


def test_a_file_system_that_fills_during_a_transfer_ends_it_and_it_goes_on_later(keep_dir: Path) -> None:
    async def act() -> None:
        volume = Volume(keep_dir / "volume", job="/jobs/a", run="run1")
        data = {"state": os.urandom(6 * MIB)}
        receipt = offer(volume, part_of(1), data)
        other = keep_dir / "other"
        other.write_bytes(b"z" * (4 * MIB))
        with pytest.raises(VolumeFullError, match="cannot write 'state'"):
            receipt.write(0, data["state"])
        arrived = receipt.offsets[0]
        receipt.close()
        other.unlink()
        receipt = offer(volume, part_of(1), data)
        assert 0 < arrived == receipt.offsets[0]
        receipt.close()
        assert receive(volume, part_of(1), data)
        assert contents(volume.open_part(part_of(1).step, 0).path) == data

    run_in_small_tmpfs(keep_dir, 8 * MIB, act)


async def test_a_limit_of_the_keeper_is_kept_where_the_file_system_has_none(keep_dir: Path) -> None:
    async with keeper(keep_dir, size_limit=8 * MIB) as client:
        incoming = await client.begin()
        for number in range(1, 6):
            publish(incoming, f"step-{number}", {"state": bytes([number]) * (3 * MIB)})
            await wait_until_taken(client, number)
        assert set(client.holdings) == {part_of(1).step}
        assert (await client.status()).skipped == 4
        await aeventually(lambda: client.progress.skipped == 4, what="the count for the status")


async def test_a_step_without_room_is_shown_with_field_cause_and_cure_until_one_has_room(keep_dir: Path) -> None:
    async with keeper(keep_dir, size_limit=8 * MIB) as client:
        incoming = await client.begin()
        publish(incoming, "step-1", {"state": b"x" * (5 * MIB)})
        await aeventually(lambda: client.progress.degraded, what="the next step has no room")
        assert client.progress.degraded == (
            "there is no room for one more step: it needs 5 MiB, and 2 MiB are free; "
            "raise keep.sizeLimit (--keep-size), or publish smaller steps"
        )
        publish(incoming, "step-2", {"state": b"x" * (2 * MIB)})
        await aeventually(
            lambda: any(
                notice.startswith("step 2 was dropped: there is no room for one more step: it needs 5 MiB, and 0 MiB")
                for notice in client.notices
            ),
            what="the sentence",
        )
        assert (await client.status()).skipped == 1
        await client.drop((part_of(1).step,))
        publish(incoming, "step-3", {"state": b"x" * MIB})
        await aeventually(lambda: not client.progress.degraded, what="the trouble ends")


async def test_a_step_that_was_taken_before_the_keeper_knows_of_the_start_shows_that_the_next_has_no_room(
    keep_dir: Path,
) -> None:
    async with keeper(keep_dir, size_limit=8 * MIB) as client:
        incoming = await client.begin_round(BeginRequest(RUN, LINEAGE))
        publish(incoming, "step-1", {"state": b"x" * (5 * MIB)})
        await wait_until_taken(client, 1)
        assert not client.progress.degraded, "a start may have to read what takes the room"
        client.report_start()
        await aeventually(lambda: client.progress.degraded, what="the next step has no room")
        assert part_of(1).step in client.holdings


async def test_a_keeper_that_replaces_another_one_takes_the_draft_of_the_script_for_the_next_step(
    keep_dir: Path,
) -> None:
    async with keeper(keep_dir, size_limit=8 * MIB) as client:
        incoming = await client.begin()
        publish(incoming, "step-1", {"state": b"x" * (3 * MIB)})
        await wait_until_taken(client, 1)
        draft = write_files(incoming / "tmp", {"state": b"y" * (3 * MIB)})
        first = client.pid or 0
        os.kill(first, signal.SIGKILL)
        await aeventually(lambda: client.pid not in {None, first}, what="another keeper")
        await client.status()
        assert not client.progress.degraded
        draft.rename(incoming / "step-2")
        await aeventually(lambda: client.progress.degraded, what="two of 3 MiB leave no room for a third one")


async def test_a_step_without_room_is_skipped_and_the_announced_one_before_it_stays(keep_dir: Path) -> None:
    """The older one may be committed by an answer that is on its way, which then drops all that is older."""
    async with keeper(keep_dir, size_limit=12 * MIB) as client:
        incoming = await client.begin()
        for number, size in ((1, 3), (2, 3), (3, 6)):
            publish(incoming, f"step-{number}", {"state": bytes([number]) * (size * MIB)})
            await wait_until_taken(client, number)
        assert set(client.holdings) == {part_of(1).step, part_of(2).step}
        assert (await client.status()).skipped == 1


def test_links_to_a_dropped_step_and_old_receipts_go_before_a_held_step(keep_dir: Path) -> None:
    volume = Volume(keep_dir, job="/jobs/a", run="run1")
    assert take(volume, part_of(1))
    assert take(volume, part_of(2))
    dropped, held = volume.link(part_of(1).step, [0]), volume.link(part_of(2).step, [0])
    volume.drop([part_of(1)])
    volume.unlink_dropped()
    assert (dropped.exists(), held.exists()) == (False, True)
