"""Parts that peers send: they grow in order, go on after any end, and are held when each checksum is right."""

import os
from pathlib import Path

import pytest

from elasticjob_agent.keep.volume.errors import PartExists, PartMissing, PartRefused, VolumeError, VolumeFullError
from elasticjob_agent.keep.volume.volume import Volume
from tests.integration.keep.parts import FILES, contents, crcs, offer, part_of, receive, take, write_files

LONG = {"state.pt": b"0123456789" * 100, "sub/more": b"abc"}


def open_volume(keep_dir: Path, size_limit: int | None = None) -> Volume:
    return Volume(keep_dir, job="/jobs/a", run="run1", size_limit=size_limit)


def test_a_received_part_is_held_with_its_checksums(keep_dir: Path) -> None:
    volume = open_volume(keep_dir)
    assert receive(volume, part_of(5), LONG)
    held = volume.open_part(part_of(5).step, 0)
    assert contents(held.path) == LONG
    assert held.crcs == tuple(crcs(LONG.values()))
    assert not held.manifest.is_own
    assert list((keep_dir / "part").iterdir()) == []


@pytest.mark.parametrize("restart", [False, True], ids=["same keeper", "next keeper"])
def test_a_receipt_goes_on_where_it_ended(keep_dir: Path, restart: bool) -> None:  # noqa: FBT001
    volume = open_volume(keep_dir)
    receipt = offer(volume, part_of(5), LONG)
    receipt.write(0, LONG["state.pt"][:333])
    receipt.close()
    if restart:
        volume.close()
        volume = open_volume(keep_dir)
    assert volume.holdings() == {}
    assert volume.partial_parts() == {part_of(5)}
    assert offer(volume, part_of(5), LONG).offsets == (333, 0)
    volume.close()
    volume = open_volume(keep_dir)
    assert receive(volume, part_of(5), LONG)
    assert contents(volume.open_part(part_of(5).step, 0).path) == LONG


def test_a_file_with_a_wrong_checksum_is_received_again(keep_dir: Path) -> None:
    volume = open_volume(keep_dir)
    receipt = offer(volume, part_of(5), LONG)
    receipt.write(0, b"x" * 1000)
    receipt.write(1, LONG["sub/more"])
    assert not receipt.finish(crcs(LONG.values()))
    assert (receipt.bad, receipt.offsets) == ((0,), (0, 3))
    assert volume.holdings() == {}
    receipt.write(0, LONG["state.pt"])
    assert receipt.finish(crcs(LONG.values()))
    assert contents(volume.open_part(part_of(5).step, 0).path) == LONG


def test_a_resumed_file_is_checked_from_its_begin(keep_dir: Path) -> None:
    volume = open_volume(keep_dir)
    write_files(keep_dir / "part" / str(part_of(5)), {"state.pt": b"wrong"})
    receipt = offer(volume, part_of(5), LONG)
    assert receipt.offsets == (5, 0)
    receipt.write(0, LONG["state.pt"][5:])
    receipt.write(1, LONG["sub/more"])
    assert not receipt.finish(crcs(LONG.values()))
    assert receipt.bad == (0,)


def test_a_received_part_is_compared_with_an_own_one_that_has_no_checksums_yet(keep_dir: Path) -> None:
    volume = open_volume(keep_dir)
    assert take(volume, part_of(5, 1, 2), {"state.pt": b"own"})
    assert receive(volume, part_of(5, 0, 2), {"state.pt": b"oth"})
    assert set(volume.conflicts.steps) == {part_of(5, 0, 2).step}


def test_an_incomplete_part_is_not_held_even_without_checksums(keep_dir: Path) -> None:
    volume = open_volume(keep_dir)
    receipt = offer(volume, part_of(5), LONG)
    receipt.write(0, LONG["state.pt"][:999])
    receipt.write(1, LONG["sub/more"])
    assert not receipt.finish([None, None])
    assert volume.holdings() == {}


def test_a_file_never_grows_beyond_its_offer(keep_dir: Path) -> None:
    receipt = offer(open_volume(keep_dir), part_of(5), LONG)
    receipt.write(1, b"ab")
    with pytest.raises(PartRefused, match="longer than 3 bytes"):
        receipt.write(1, b"cd")
    assert receipt.offsets == (0, 2)


def test_what_is_left_of_another_offer_is_removed(keep_dir: Path) -> None:
    volume = open_volume(keep_dir)
    left = write_files(keep_dir / "part" / str(part_of(5)), {"other": b"x", "state.pt/file": b"y", "sub2/z": b"z"})
    (left / "sub").symlink_to("/etc")
    assert receive(volume, part_of(5), LONG)
    assert contents(volume.open_part(part_of(5).step, 0).path) == LONG
    assert not Path("/etc/more").exists()


@pytest.mark.parametrize("name", ["/etc/cron.d/x", "../x", "a/../../x", "", "a\0"])
def test_no_name_of_a_peer_leaves_the_directory(keep_dir: Path, name: str) -> None:
    volume = open_volume(keep_dir)
    with pytest.raises(PartRefused):
        offer(volume, part_of(5), {name: b"x"})
    assert list((keep_dir / "part").iterdir()) == []
    assert offer(volume, part_of(5), LONG).offsets == (0, 0)


def test_a_part_is_received_by_one_transfer_at_a_time_and_once(keep_dir: Path) -> None:
    volume = open_volume(keep_dir)
    receipt = offer(volume, part_of(5), LONG)
    with pytest.raises(PartExists, match="is being received already"):
        offer(volume, part_of(5), LONG)
    receipt.abandon()
    assert volume.partial_parts() == set()
    assert receive(volume, part_of(5), LONG)
    with pytest.raises(PartExists, match="is held already"):
        offer(volume, part_of(5), LONG)


def test_a_part_that_the_script_publishes_meanwhile_stays_its_own(keep_dir: Path) -> None:
    volume = open_volume(keep_dir)
    receipt = offer(volume, part_of(5))
    assert take(volume, part_of(5))
    for number, data in enumerate(FILES.values()):
        receipt.write(number, data)
    assert receipt.finish(crcs(FILES.values()))
    assert volume.parts()[part_of(5)].is_own
    assert list((keep_dir / "part").iterdir()) == []


def test_a_receipt_whose_step_was_dropped_ends_with_an_error(keep_dir: Path) -> None:
    volume = open_volume(keep_dir)
    receipt = offer(volume, part_of(5), LONG)
    receipt.write(0, LONG["state.pt"])
    volume.drop([part_of(5)])
    with pytest.raises(VolumeError):
        receipt.write(1, b"abc")
    receipt.close()
    assert volume.holdings() == {}
    assert receive(volume, part_of(5), LONG)


def test_a_part_without_room_is_refused_and_open_receipts_reserve_theirs(keep_dir: Path) -> None:
    volume = open_volume(keep_dir, size_limit=1 << 20)
    first = offer(volume, part_of(5, 0, 3), {"a": b"x" * (600 << 10)})
    assert volume.free_bytes() <= (1 << 20) - (600 << 10)
    with pytest.raises(VolumeFullError, match="are free"):
        offer(volume, part_of(5, 1, 3), {"b": b"x" * (600 << 10)})
    first.abandon()
    assert receive(volume, part_of(5, 1, 3), {"b": b"x" * (600 << 10)})


def test_only_receipts_without_a_transfer_are_dropped_for_room(keep_dir: Path) -> None:
    volume = open_volume(keep_dir)
    offer(volume, part_of(5, 0, 2), LONG).close()
    open_receipt = offer(volume, part_of(5, 1, 2), LONG)
    volume.drop_partial()
    assert volume.partial_parts() == {part_of(5, 1, 2)}
    open_receipt.write(0, b"0")


def test_a_copied_part_gets_the_checksums_of_its_first_copy_and_is_withdrawn_by_others(keep_dir: Path) -> None:
    volume = open_volume(keep_dir)
    assert take(volume, part_of(5))
    held = volume.open_part(part_of(5).step, 0)
    assert volume.confirm(held, [1, 2])
    volume.close()
    volume = open_volume(keep_dir)
    held = volume.open_part(part_of(5).step, 0)
    assert held.crcs == (1, 2)
    assert volume.confirm(held, [1, 2])
    assert not volume.confirm(held, [1, 3])
    with pytest.raises(PartMissing):
        volume.open_part(part_of(5).step, 0)


def test_a_file_that_was_opened_is_read_to_its_end_after_the_part_was_dropped(keep_dir: Path) -> None:
    volume = open_volume(keep_dir)
    assert receive(volume, part_of(5), LONG)
    held = volume.open_part(part_of(5).step, 0)
    fd = held.open_file(0)
    volume.drop([part_of(5)])
    volume.trash.empty()
    assert os.read(fd, 2000) == LONG["state.pt"]
    os.close(fd)
    with pytest.raises(VolumeError):
        held.open_file(0)
