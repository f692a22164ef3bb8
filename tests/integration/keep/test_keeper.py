"""A keeper and its client: what a script publishes is held, whatever ends or hangs."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from elasticjob_agent.keep.keeper.errors import KeeperLost, RequestRefused
from elasticjob_agent.keep.keeper.messages import BeginRequest, OpenRequest, StatusRequest
from elasticjob_api.kept_steps import Lineage
from testing.waiting import aeventually
from tests.integration.keep.keepers import RUN, keeper, wait_until_held
from tests.integration.keep.namespaces import run_without_inotify
from tests.integration.keep.parts import FILES, LINEAGE, contents, part_of, publish, write_files

NEXT = Lineage(4, "def456")


@contextlib.contextmanager
def starved(pid: int) -> Iterator[None]:
    """Give a process the processor only when another one, which never waits, leaves it."""
    processor = min(os.sched_getaffinity(0))
    busy = subprocess.Popen(["taskset", "-c", str(processor), sys.executable, "-S", "-c", "while True: pass"])
    try:
        for thread in (int(path.name) for path in Path(f"/proc/{pid}/task").iterdir()):
            os.sched_setaffinity(thread, {processor})
            os.sched_setscheduler(thread, os.SCHED_IDLE, os.sched_param(0))
        yield
    finally:
        busy.kill()
        busy.wait()


async def test_a_published_step_is_held_soon(keep_dir: Path) -> None:
    async with keeper(keep_dir) as client:
        publish(await client.begin(), "step-5")
        await aeventually(lambda: client.holdings == {part_of(5).step: {0}}, what="step 5 held")
        assert (await client.status()).taken == 1


async def test_a_step_that_is_published_at_the_last_moment_is_in_the_seal(keep_dir: Path) -> None:
    async with keeper(keep_dir) as client:
        incoming = await client.begin()
        for number in range(5):
            publish(incoming, f"step-{number}.1-of-2")
        os.kill(client.pid or 0, signal.SIGCONT)
        await client.seal()
        await wait_until_held(client, part_of(4, 1, 2))
        assert list((keep_dir / "in").iterdir()) == []


async def test_only_the_oldest_and_the_newest_uncommitted_step_stay(keep_dir: Path) -> None:
    async with keeper(keep_dir) as client:
        incoming = await client.begin()
        for number in range(1, 6):
            publish(incoming, f"step-{number}")
            await wait_until_held(client, part_of(number))
        await aeventually(lambda: set(client.holdings) == {part_of(1).step, part_of(5).step})
        assert (await client.status()).skipped == 3
        assert (await client.seal()).keys() == {part_of(1).step, part_of(5).step}


async def test_nothing_is_dropped_before_the_workers_have_started(keep_dir: Path) -> None:
    async with keeper(keep_dir) as client:
        incoming = await client.begin_round(BeginRequest(RUN, LINEAGE))
        for number in range(1, 6):
            publish(incoming, f"step-{number}")
        await aeventually(lambda: len(client.holdings) == 5)
        client.report_start()
        await aeventually(lambda: set(client.holdings) == {part_of(1).step, part_of(5).step})


async def test_a_round_drops_the_steps_that_the_training_does_not_descend_from(keep_dir: Path) -> None:
    async with keeper(keep_dir) as client:
        publish(await client.begin(), "step-5")
        await client.seal()
        await aeventually(lambda: client.holdings == {part_of(5).step: {0}})
        await client.begin(NEXT, restored=part_of(5).step, history=f"{LINEAGE}.5")
        assert client.holdings == {part_of(5).step: {0}}
        await client.seal()
        await client.begin(Lineage(5, "x"), history=f"{LINEAGE}.4")
        assert client.holdings == {}


async def test_a_whole_step_is_restored_and_another_one_is_refused(keep_dir: Path) -> None:
    async with keeper(keep_dir) as client:
        publish(await client.begin(), "step-5")
        publish(keep_dir / "in" / str(LINEAGE), "step-6.0-of-2")
        await client.seal()
        await aeventually(lambda: len(client.holdings) == 2)
        assert contents(await client.restore(part_of(5).step)) == FILES
        with pytest.raises(RequestRefused, match=r"6\.2\.1 is not held"):
            await client.restore(part_of(6, 0, 2).step)
        await client.drop((part_of(5).step,))
        await aeventually(lambda: client.holdings == {part_of(6, 0, 2).step: {0}})


@pytest.mark.parametrize("name", ["step-x", "step-5.2-of-2", "step-05", "step-1.tmp"])
async def test_a_name_of_another_form_is_reported_and_stays(keep_dir: Path, name: str) -> None:
    async with keeper(keep_dir) as client:
        incoming = await client.begin()
        publish(incoming, name)
        publish(incoming, "step-7")
        await wait_until_held(client, part_of(7))
        assert [name in sentence for sentence in client.notices] == [True]
        assert (incoming / name).is_dir()


async def test_names_of_the_script_are_left_alone(keep_dir: Path) -> None:
    async with keeper(keep_dir) as client:
        incoming = await client.begin()
        write_files(incoming / "scratch", FILES)
        publish(incoming, "checkpoint-5")
        publish(incoming, "step-7")
        await wait_until_held(client, part_of(7))
        assert {path.name for path in incoming.iterdir()} == {"scratch", "checkpoint-5"}
        assert client.notices == []


@pytest.mark.parametrize(
    "count",
    [11_000, pytest.param(1_000_000, marks=[pytest.mark.nightly, pytest.mark.timeout(600)])],
    ids=["eleven thousand", "a million"],
)
async def test_too_many_small_files_are_refused_and_the_next_step_is_held(keep_dir: Path, count: int) -> None:
    async with keeper(keep_dir) as client:
        incoming = await client.begin()
        many = incoming / "tmp"
        many.mkdir()
        for number in range(count):
            (many / str(number)).touch()
        many.rename(incoming / "step-5")
        publish(incoming, "step-6")
        await aeventually(lambda: client.holdings == {part_of(6).step: {0}})
        assert ["more than 10000 files" in sentence for sentence in client.notices] == [True]
        await aeventually(lambda: not any((keep_dir / "trash").iterdir()), what="the trash is empty")


async def test_a_file_that_changes_after_it_was_published_is_not_restored(keep_dir: Path) -> None:
    async with keeper(keep_dir) as client:
        incoming = await client.begin()
        tmp = write_files(incoming / "tmp", FILES)
        with (tmp / "state.pt").open("ab", buffering=0) as late:
            tmp.rename(incoming / "step-5")
            await aeventually(lambda: client.holdings)
            late.write(b"more")
        await client.seal()
        with pytest.raises(RequestRefused, match="has changed after it was published"):
            await client.restore(part_of(5).step)
        await aeventually(lambda: client.holdings == {})
        await aeventually(lambda: any("withdrawn" in sentence for sentence in client.notices))


def test_without_inotify_steps_are_noticed_by_a_look(keep_dir: Path) -> None:
    async def act() -> None:
        async with keeper(keep_dir) as client:
            incoming = await client.begin()
            assert (await client.status()).is_polling
            for number in (5, 6):
                publish(incoming, f"step-{number}")
                await wait_until_held(client, part_of(number))
            publish(incoming, "step-7")
            await client.seal()
            await wait_until_held(client, part_of(7))

    run_without_inotify(act)


async def test_a_stopped_keeper_is_replaced_and_the_next_one_seals(keep_dir: Path) -> None:
    async with keeper(keep_dir) as client:
        publish(await client.begin(), "step-5")
        await aeventually(lambda: client.holdings)
        os.kill(client.pid or 0, signal.SIGSTOP)
        publish(keep_dir / "in" / str(LINEAGE), "step-6")
        assert await client.seal() == {part_of(5).step: {0}, part_of(6).step: {0}}
        assert (client.missed_seals, client.restarts) == (0, 1)


async def test_a_stopped_keeper_is_replaced_before_the_next_round_begins(keep_dir: Path) -> None:
    async with keeper(keep_dir) as client:
        publish(await client.begin(), "step-5")
        await client.seal()
        os.kill(client.pid or 0, signal.SIGSTOP)
        await client.begin(NEXT, restored=part_of(5).step, history=f"{LINEAGE}.5")
        assert contents(await client.restore(part_of(5).step)) == FILES
        assert client.restarts == 1


async def test_keepers_that_end_again_and_again_delay_no_round_and_the_last_known_steps_count(keep_dir: Path) -> None:
    async with keeper(keep_dir, first_pause_s=60.0, last_pause_s=60.0) as client:
        publish(await client.begin(), "step-5")
        await aeventually(lambda: client.holdings)
        os.kill(client.pid or 0, signal.SIGKILL)
        await aeventually(lambda: client.restarts, what="the end of the keeper")
        assert await client.seal() == {part_of(5).step: {0}}
        assert client.missed_seals == 1


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait a minute for a seal: a machine with too much to do may need more than the product's limit."""
    monkeypatch.setattr("elasticjob_agent.keep.client.LONGEST_SEAL_S", 60.0)


@pytest.mark.usefixtures("patient")
async def test_a_step_that_was_published_at_the_last_moment_is_not_lost_on_a_busy_machine(keep_dir: Path) -> None:
    async with keeper(keep_dir) as client:
        incoming = await client.begin()
        for index in range(300):
            write_files(incoming / f"tmp-{index}", FILES)
        with starved(client.pid or 0):
            for index in range(300):
                (incoming / f"tmp-{index}").rename(incoming / f"step-5.{index}-of-300")
            sealed = await client.seal()
        assert sealed == {part_of(5, 0, 300).step: frozenset(range(300))}
        assert client.missed_seals == 0


@pytest.mark.usefixtures("patient")
async def test_a_step_that_was_published_while_a_keeper_was_replaced_is_not_lost(keep_dir: Path) -> None:
    async with keeper(keep_dir) as client:
        incoming = await client.begin()
        os.kill(client.pid or 0, signal.SIGSTOP)
        publish(incoming, "step-5")
        os.kill(client.pid or 0, signal.SIGKILL)
        await aeventually(lambda: client.restarts, what="the end of the keeper")
        assert await client.seal() == {part_of(5).step: {0}}
        assert client.missed_seals == 0


async def test_a_hung_keeper_is_killed_and_replaced(keep_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with keeper(keep_dir) as client:
        publish(await client.begin(), "step-5")
        await wait_until_held(client, part_of(5))
        os.kill(client.pid or 0, signal.SIGSTOP)
        with monkeypatch.context() as patch:
            patch.setattr("elasticjob_agent.keep.keeper_connection.ANSWER_S", 0.5)
            request = client._request(StatusRequest())
        with pytest.raises(KeeperLost):
            await client._answered(request, 60.0)
        assert contents(await client.restore(part_of(5).step)) == FILES
        assert client.restarts == 1


async def test_a_keeper_that_starts_slowly_is_waited_for(keep_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("client", "keeper_connection"):
        # No interpreter starts in that time. On a machine with too much to do it takes more than ten seconds.
        monkeypatch.setattr(f"elasticjob_agent.keep.{module}.ANSWER_S", 0.001)
    async with keeper(keep_dir) as client:
        first = client.pid or 0
        os.kill(first, signal.SIGKILL)
        await aeventually(lambda: client.restarts == 1 and client.pid not in {None, first}, what="another keeper")
        await aeventually(lambda: client._is_open, what="its answer")
        assert client.restarts == 1


async def test_what_was_published_while_no_keeper_ran_is_held_by_the_next_one(keep_dir: Path) -> None:
    async with keeper(keep_dir) as client:
        incoming = await client.begin()
        os.kill(client.pid or 0, signal.SIGSTOP)
        publish(incoming, "step-5.0-of-2")
        os.kill(client.pid or 0, signal.SIGKILL)
        await aeventually(lambda: client.holdings == {part_of(5, 0, 2).step: {0}})
        publish(incoming, "step-6.0-of-2")
        await wait_until_held(client, part_of(6, 0, 2))


@pytest.mark.usefixtures("patient")
async def test_what_a_killed_keeper_could_not_seal_is_held_by_the_next_one(keep_dir: Path) -> None:
    async with keeper(keep_dir) as client:
        incoming = await client.begin()
        os.kill(client.pid or 0, signal.SIGSTOP)
        publish(incoming, "step-5")
        os.kill(client.pid or 0, signal.SIGKILL)
        assert await client.seal() == {part_of(5).step: {0}}


async def test_a_request_that_meets_the_end_of_a_keeper_is_answered_by_the_next_one(keep_dir: Path) -> None:
    async with keeper(keep_dir) as client:
        publish(await client.begin(), "step-5")
        await aeventually(lambda: client.holdings)
        os.kill(client.pid or 0, signal.SIGKILL)
        assert contents(await client.restore(part_of(5).step)) == FILES


def list_names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


async def test_an_orderly_end_leaves_the_volume_or_erases_it(keep_dir: Path) -> None:
    async with keeper(keep_dir) as client:
        publish(await client.begin(), "step-5")
        await aeventually(lambda: client.holdings)
        pid = client.pid or 0
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    async with keeper(keep_dir) as client:
        assert client.holdings == {part_of(5).step: {0}}
        await client.close(erase=True)
    assert list_names(keep_dir.parent) == []


async def test_a_large_volume_is_erased_as_long_as_that_takes(keep_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing else deletes what is left in the memory of a machine."""
    async with keeper(keep_dir) as client:
        draft = await client.begin() / "draft"
        draft.mkdir()
        for number in range(20_000):
            (draft / str(number)).touch()
        monkeypatch.setattr("elasticjob_agent.keep.client._END_S", 0.01)
        monkeypatch.setattr("elasticjob_agent.keep.keeper_connection.ANSWER_S", 0.02)
        await client.close(erase=True)
    assert list_names(keep_dir.parent) == []


def remove(file: Path) -> None:
    """Remove a file."""
    file.unlink()


@pytest.fixture
def file(keep_dir: Path) -> Path:
    keep_dir.write_text("a file")
    return keep_dir


async def test_a_directory_that_cannot_be_used_is_reported_once_with_its_cause_and_used_when_it_can(file: Path) -> None:
    why = f"cannot use {file}: Not a directory"
    async with keeper(file) as client:
        await aeventually(lambda: client.restarts > 1, what="further keepers")
        assert (client.refused, client.notices) == (why, [f"steps are not kept at present: {why}"])
        remove(file)
        await aeventually(lambda: not client.refused, what="a keeper that can use it")
        publish(await client.begin(), "step-5")
        await aeventually(lambda: client.holdings)


async def test_the_volume_of_another_run_is_empty(keep_dir: Path) -> None:
    async with keeper(keep_dir) as client:
        publish(await client.begin(), "step-5")
        await aeventually(lambda: client.holdings)
        client._replayed.opened = OpenRequest(str(keep_dir), "/jobs/a", "another1")
        os.kill(client.pid or 0, signal.SIGKILL)
        client._replayed.begun = None
        await aeventually(lambda: client.run == "another1")
        assert client.holdings == {}


async def test_a_keeper_touches_nothing_beside_its_volume(keep_dir: Path) -> None:
    beside = write_files(keep_dir.parent / "beside", FILES)
    async with keeper(keep_dir) as client:
        incoming = await client.begin()
        (incoming / "step-1").symlink_to(beside)
        publish(incoming, "step-2")
        (incoming / "other").symlink_to(beside)
        await aeventually(lambda: client.holdings)
        await client.seal()
        await client.close(erase=True)
    assert contents(beside) == FILES
    assert list_names(keep_dir.parent) == ["beside"]


async def test_a_keeper_that_never_opens_its_volume_is_replaced_after_longer_and_longer_pauses(
    keep_dir: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    connection = "elasticjob_agent.keep.keeper_connection"
    monkeypatch.setattr(f"{connection}.START_S", 0.01)  # no interpreter starts in that time
    monkeypatch.setattr(f"{connection}._LONG_LIFE_S", 0.0)
    async with keeper(keep_dir) as client:
        await aeventually(lambda: client.restarts >= 3, what="three keepers have ended")
        assert client.refused == "the keeper ended with code -9 before it could use its directory"
    pauses = [record.message.split()[-2] for record in caplog.records if "another one starts" in record.message]
    assert pauses[:3] == ["0.01", "0.02", "0.04"]
