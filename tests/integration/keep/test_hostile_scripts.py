"""A hostile script of the job's own user: it hurts its own steps, and its keeper goes on."""

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from elasticjob_agent.keep.keeper.errors import RequestRefused
from elasticjob_api.kept_steps import Lineage
from testing.waiting import aeventually
from tests.integration.keep.keepers import keeper, wait_until_held
from tests.integration.keep.parts import FILES, contents, part_of, publish, write_files

TEN_TB = 10 << 40


def publish_sparse(incoming: Path, name: str, size: int) -> None:
    """Publish a file without any block."""
    sparse = incoming / f"tmp.{name}"
    sparse.mkdir()
    with (sparse / "state").open("wb") as file:
        file.truncate(size)
    sparse.rename(incoming / name)


async def test_a_sparse_file_of_ten_terabytes_is_refused_unread_and_the_next_step_is_held(keep_dir: Path) -> None:
    async with keeper(keep_dir) as client:
        incoming = await client.begin()
        publish_sparse(incoming, "step-5.0-of-2", TEN_TB)
        await aeventually(lambda: client.progress.degraded, what="the cause is shown")
        assert "part 0 of step 5 is too large: the files of the step have 10485760 MiB" in client.progress.degraded
        assert "raise keep.sizeLimit (--keep-size)" in client.progress.degraded
        assert any("step-5.0-of-2 is refused: the files of the step have" in notice for notice in client.notices)
        publish(incoming, "step-6.0-of-2")
        await wait_until_held(client, part_of(6, 0, 2))
        await aeventually(lambda: not client.progress.degraded, what="the trouble ends")
        assert (set(client.holdings), client.restarts) == ({part_of(6, 0, 2).step}, 0)


async def test_a_sparse_file_as_large_as_the_volume_is_not_read_and_what_has_no_room_beside_it_is_counted(
    keep_dir: Path,
) -> None:
    async with keeper(keep_dir, size_limit=16 << 20) as client:
        incoming = await client.begin()
        await client.status()  # the workers have started, so that each step is looked at for room
        os.kill(client.pid or 0, signal.SIGSTOP)  # it takes all three together
        publish_sparse(incoming, "step-5.0-of-2", 16 << 20)
        publish(incoming, "step-6.0-of-2")
        publish(incoming, "step-7.0-of-2")
        os.kill(client.pid or 0, signal.SIGCONT)
        sealed = await client.seal()
        assert set(sealed) == {part_of(5, 0, 2).step}
        assert ((await client.status()).skipped, client.restarts) == (2, 0)


async def test_sparse_parts_of_one_step_have_the_size_of_the_volume_together_at_most(keep_dir: Path) -> None:
    async with keeper(keep_dir, size_limit=16 << 20) as client:
        incoming = await client.begin()
        for index in range(3):
            publish_sparse(incoming, f"step-5.{index}-of-3", 8 << 20)
        sealed = await client.seal()
        assert sealed == {part_of(5, 0, 3).step: {0, 1}}


async def test_a_sparse_part_that_an_earlier_keeper_has_taken_is_deleted_and_reported(keep_dir: Path) -> None:
    async with keeper(keep_dir) as client:
        incoming = await client.begin()
        publish_sparse(incoming, "step-5", 64 << 20)
        await wait_until_held(client, part_of(5))
        await client.seal()
    async with keeper(keep_dir, size_limit=16 << 20) as client:
        await aeventually(lambda: client.progress.degraded, what="the cause is shown")
        assert "part 0 of step 5 is too large: the files of the step have 64 MiB" in client.progress.degraded
        assert any("is deleted: the files of the step have 64 MiB" in notice for notice in client.notices)
        assert client.holdings == {}


async def test_a_step_that_is_exchanged_under_its_name_is_refused_and_the_next_one_is_held(keep_dir: Path) -> None:
    async with keeper(keep_dir) as client:
        incoming = await client.begin()
        publish(incoming, "step-5")
        await wait_until_held(client, part_of(5))
        publish(incoming, "step-5", {"state.pt": b"another"})
        publish(incoming, "step-6")
        await wait_until_held(client, part_of(6))
        await client.seal()
        assert contents(await client.restore(part_of(5).step)) == FILES


async def test_a_script_that_deletes_or_writes_what_is_held_loses_its_own_steps_only(keep_dir: Path) -> None:
    beside = write_files(keep_dir.parent / "beside", FILES)
    async with keeper(keep_dir) as client:
        incoming = await client.begin()
        publish(incoming, "step-5")
        await wait_until_held(client, part_of(5))
        held = keep_dir / "held" / incoming.name
        (held / "5" / "0-of-1" / "state.pt").unlink()
        write_files(held / "9" / "0-of-1", FILES)
        (held / "5" / "more").symlink_to(beside)
        publish(incoming, "step-6")
        await wait_until_held(client, part_of(6))
        await client.seal()
        with pytest.raises(RequestRefused, match="5"):
            await client.restore(part_of(5).step)
        assert contents(await client.restore(part_of(6).step)) == FILES
        await client.close(erase=True)
    assert contents(beside) == FILES


async def test_a_million_wrong_names_give_a_hundred_sentences_and_the_next_step_is_held(keep_dir: Path) -> None:
    async with keeper(keep_dir) as client:
        incoming = await client.begin()
        for number in range(3000):
            (incoming / f"step-{number}.{number}").mkdir()
            (incoming / f"step-\n{number}").mkdir()
        publish(incoming, "step-7")
        await wait_until_held(client, part_of(7))
        assert await client.seal() == {part_of(7).step: {0}}
        assert len(client.notices) <= 100
        assert all("\n" not in sentence for sentence in client.notices)


async def test_a_script_that_never_finishes_a_step_has_none_and_its_leftovers_are_deleted(keep_dir: Path) -> None:
    async with keeper(keep_dir) as client:
        incoming = await client.begin()
        write_files(incoming / "scratch", {"state": b"x" * 100_000})
        late = os.open(incoming / "scratch" / "state", os.O_WRONLY | os.O_APPEND)
        try:
            assert await client.seal() == {}
            await aeventually(lambda: not any((keep_dir / "in").iterdir()), what="no leftovers")
            os.write(late, b"more")  # into a file that no name leads to
        finally:
            os.close(late)
        assert (await client.status()).held_bytes == 0


@pytest.mark.parametrize(
    "name", ["volume.json", ".volume.json.tmp", "published.json", ".published.json.tmp", "0-of-1.json"]
)
@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir], ids=["fifo", "directory"])
async def test_a_volume_opens_whatever_a_script_has_put_in_the_place_of_a_record(
    keep_dir: Path, name: str, make: Callable[[Path], None]
) -> None:
    async with keeper(keep_dir) as client:
        incoming = await client.begin()
        publish(incoming, "step-5")
        await wait_until_held(client, part_of(5))
        await client.seal()
    held = keep_dir / "held" / incoming.name
    path = (keep_dir if "volume" in name else held if "published" in name else held / "5") / name
    path.unlink(missing_ok=True)
    make(path)
    async with keeper(keep_dir) as client:
        assert client.restarts == 0
        incoming = await client.begin(Lineage(4, "def456"))
        publish(incoming, "step-6")
        await wait_until_held(client, part_of(6, lineage=Lineage(4, "def456")))
        await client.close(erase=True)
    await aeventually(lambda: not keep_dir.exists(), what="an erased volume")


@pytest.mark.parametrize("name", ["0-of-1.json", ".0-of-1.json.tmp", "published.json", ".published.json.tmp"])
@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir], ids=["fifo", "directory"])
async def test_whatever_is_in_the_place_of_a_file_that_is_being_written_is_replaced(
    keep_dir: Path, name: str, make: Callable[[Path], None]
) -> None:
    async with keeper(keep_dir) as client:
        incoming = await client.begin()
        held = keep_dir / "held" / incoming.name
        path = (held if "published" in name else held / "6") / name
        path.parent.mkdir(parents=True, exist_ok=True)
        make(path)
        if path.is_dir():
            (path / "more").touch()
        publish(incoming, "step-6")
        await wait_until_held(client, part_of(6))
        assert (client.restarts, client.notices) == (0, [])
        assert all((held / file).is_file() for file in ("published.json", "6/0-of-1.json"))


async def test_names_of_directories_reach_no_log_as_they_are(keep_dir: Path) -> None:
    async with keeper(keep_dir) as client:
        await client.begin()
    evil = "\x1b[2J\n" + "a" * 240
    (keep_dir / "held" / evil / "1" / "x").mkdir(parents=True)
    async with keeper(keep_dir) as client:
        await aeventually(lambda: client.notices, what="a notice")
        assert all(notice.isprintable() and len(notice) < 600 for notice in client.notices)
        assert "\\x1b[2J\\n" in client.notices[0]
