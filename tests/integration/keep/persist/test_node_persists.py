"""The steps on disk of a node over a real keeper: what it restores and lists, and that it gives none up too early."""

import contextlib
import socket
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from elasticjob_agent.keep.persist.job_dir import JobDir
from elasticjob_agent.node.node_keep import NodeKeep
from elasticjob_agent.rendezvous.protocol.keep.sources import persisted_sources
from elasticjob_agent.rendezvous.protocol.member_plan import RestorePhase
from elasticjob_api import constants
from elasticjob_api.holdings import HoldingsRecord
from elasticjob_api.kept_steps import KeptStep, Lineage, PersistedStep
from elasticjob_api.rendezvous_state import RendezvousState, RoundPhase
from elasticjob_etcd.memory.store import InMemoryStore
from testing.waiting import aeventually
from tests.integration.keep.node_keeps import (
    HOST,
    KEYS,
    ME,
    OTHER,
    SECRET,
    active,
    give_back,
    join,
    node_keep,
    take_away,
    until_complete,
)
from tests.integration.keep.parts import contents, publish
from tests.integration.keep.persist.job_dirs import WHOLE, step_of, write_step

RUN = "0000000f"
PERSISTED = PersistedStep(RUN, KeptStep.parse("1.nonce1.7.3"))
RESTORING = active(2, history="1.nonce1.7", restore=str(PERSISTED.step), sources=persisted_sources(RUN))


@contextlib.asynccontextmanager
async def persisting_node(
    keep_dir: Path, shared: Path, *numbers: int, store: InMemoryStore | None = None, restore_timeout_s: float = 0.5
) -> AsyncIterator[NodeKeep]:
    """Yield a node whose shared directory has these steps at its start."""
    write_steps(shared, keep_dir.parent, *numbers)
    keep = node_keep(keep_dir, store or InMemoryStore(), HOST, shared, restore_timeout_s=restore_timeout_s)
    await keep.start()
    try:
        keep.observe(ME, link_secret=SECRET, leads=False)
        yield keep
    finally:
        await keep.close(erase=True)


def write_steps(shared: Path, memory: Path, *numbers: int, lineage: Lineage = PERSISTED.step.lineage) -> None:
    """Write whole steps into the shared directory."""
    shared.mkdir(exist_ok=True)
    directory = JobDir(shared, KEYS.prefix)
    directory.open()
    for number in numbers:
        write_step(directory, memory, step_of(number, RUN, lineage=lineage))


async def until_waiting(keep: NodeKeep, state: RendezvousState, why: str) -> None:
    """Return when the node reports that it waits, and why; fail if the step is given up."""

    def is_waiting() -> bool:
        assert keep.restore_phase(state) is not RestorePhase.FAILED, "the step was given up"
        report = keep.report()
        return report.is_waiting and why in report.persist_error

    await aeventually(is_waiting, what="the node waits")


async def test_a_persisted_step_waits_for_a_directory_that_is_away_since_it_was_listed(
    keep_dir: Path, tmp_path: Path
) -> None:
    shared = tmp_path / "shared"
    async with persisting_node(keep_dir, shared, 7) as keep:
        await aeventually(lambda: keep.report().persisted_step == 7, what="the list")
        away = shared.rename(tmp_path / "away")
        await until_waiting(keep, RESTORING, "this node waits until keep.persistTo can be read: step 7: cannot use ")
        away.rename(shared)
        await until_complete(keep, RESTORING)
        assert contents(Path(keep.variables()[constants.ENV_KEPT])) == WHOLE
        assert not keep.report().is_waiting
        await aeventually(lambda: keep.report().persist_error == "", what="a new list, on which the next round counts")


async def test_a_persisted_step_has_the_whole_time_of_a_restore_after_a_directory_could_not_be_read(
    keep_dir: Path, tmp_path: Path
) -> None:
    """A file system of a network may show a step late."""
    shared, limit_s = tmp_path / "shared", 3.0
    async with persisting_node(keep_dir, shared, 6, 7, restore_timeout_s=limit_s) as keep:
        await aeventually(lambda: keep.report().persisted_step == 7, what="the list")
        away, began_s = shared.rename(tmp_path / "away"), time.monotonic()
        await until_waiting(keep, RESTORING, "cannot use ")
        assert keep.holdings is not None
        assert keep.holdings.has_listed is False, "if its peers fail meanwhile, the next round waits for this node"
        await aeventually(lambda: time.monotonic() > began_s + limit_s, what="the time of a restore is over")
        (whole,) = away.glob("*/step-7.*")
        late = whole.rename(tmp_path / "late")
        away.rename(shared)
        await aeventually(lambda: "can be read" not in keep.report().persist_error, what="the directory can be read")
        late.rename(shared / whole.relative_to(away))
        await until_complete(keep, RESTORING)
        assert not keep.report().is_waiting


async def test_a_persisted_step_waits_for_a_directory_without_any_step_as_of_another_volume(
    keep_dir: Path, tmp_path: Path
) -> None:
    shared = tmp_path / "shared"
    async with persisting_node(keep_dir, shared) as keep:
        await until_waiting(keep, RESTORING, "does not exist on this node")
        write_steps(shared, keep_dir.parent, 7)
        await until_complete(keep, RESTORING)


async def test_a_persisted_step_that_is_missing_among_others_is_given_up(keep_dir: Path, tmp_path: Path) -> None:
    async with persisting_node(keep_dir, tmp_path / "shared", 6) as keep:
        await aeventually(lambda: keep.report().persisted_step == 6, what="the list")
        await aeventually(lambda: keep.restore_phase(RESTORING) is RestorePhase.FAILED, what="the step is given up")
        assert not keep.report().is_waiting


@pytest.mark.parametrize("on_disk", [7, 6])
async def test_a_step_whose_holders_are_gone_is_given_up_only_if_it_is_not_on_disk(
    keep_dir: Path, tmp_path: Path, on_disk: int
) -> None:
    state = active(2, history="1.nonce1.7", restore=str(PERSISTED.step))
    async with persisting_node(keep_dir, tmp_path / "shared", on_disk) as keep:
        await aeventually(lambda: keep.report().persisted_step == on_disk, what="the list")
        if on_disk == PERSISTED.step.number:
            await until_complete(keep, state)
            assert contents(Path(keep.variables()[constants.ENV_KEPT])) == WHOLE
        else:
            await aeventually(lambda: keep.restore_phase(state) is RestorePhase.FAILED, what="the step is given up")


@contextlib.contextmanager
def silent_holder(store: InMemoryStore) -> Iterator[None]:
    """Let another node name itself as the holder of the step, and answer no keeper."""
    with socket.create_server((HOST, 0)) as listener:
        steps = {PERSISTED.step: frozenset(range(PERSISTED.step.parts))}
        join(store, OTHER, HoldingsRecord(port=listener.getsockname()[1], steps=steps))
        yield


@pytest.mark.parametrize("on_disk", [7, 6])
async def test_a_step_that_is_not_fetched_in_time_is_given_up_only_if_it_is_not_on_disk(
    keep_dir: Path, tmp_path: Path, on_disk: int
) -> None:
    state, store = active(2, history="1.nonce1.7", restore=str(PERSISTED.step)), InMemoryStore()
    with silent_holder(store):
        async with persisting_node(keep_dir, tmp_path / "shared", on_disk, store=store) as keep:
            await aeventually(lambda: keep.report().persisted_step == on_disk, what="the list")
            if on_disk == PERSISTED.step.number:
                await until_complete(keep, state)
                assert contents(Path(keep.variables()[constants.ENV_KEPT])) == WHOLE
            else:
                await aeventually(lambda: keep.restore_phase(state) is RestorePhase.FAILED, what="it is given up")


async def test_a_step_whose_holder_is_silent_waits_for_a_directory_that_is_away(keep_dir: Path, tmp_path: Path) -> None:
    state, store, shared = active(2, history="1.nonce1.7", restore=str(PERSISTED.step)), InMemoryStore(), tmp_path / "s"
    with silent_holder(store):
        async with persisting_node(keep_dir, shared, 7, store=store) as keep:
            await aeventually(lambda: keep.report().persisted_step == 7, what="the list")
            away = shared.rename(tmp_path / "away")
            await until_waiting(keep, state, "this node waits until keep.persistTo can be read: step 7: cannot use ")
            away.rename(shared)
            await until_complete(keep, state)


async def test_a_node_without_a_shared_directory_gives_no_persisted_step_up(keep_dir: Path) -> None:
    keep = node_keep(keep_dir, InMemoryStore(), HOST, restore_timeout_s=0.5)
    await keep.start()
    try:
        keep.observe(ME, link_secret=SECRET, leads=False)
        await until_waiting(keep, RESTORING, "this node waits, because it has no keep.persistTo, and step 7 is there")
        await keep.seal()
        assert not keep.report().is_waiting
    finally:
        await keep.close(erase=True)


@pytest.fixture
def file(keep_dir: Path) -> Path:
    """A file in the place of the volume, until `give_back`."""
    keep_dir.mkdir()
    take_away(keep_dir)
    return keep_dir


async def test_a_node_whose_volume_cannot_be_used_waits_for_it_and_gives_no_persisted_step_up(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("elasticjob_agent.node.node_keep.START_S", 0.2)
    async with persisting_node(file, tmp_path / "shared", 7) as keep:
        record = keep.holdings
        assert record is not None
        assert (record.port, record.has_listed) == (0, False)
        await until_waiting(keep, RESTORING, f"this node waits for its keeper: cannot use {file}: Not a directory")
        assert f"cannot use {file}: Not a directory" in keep.report().degraded
        give_back(file)
        await until_complete(keep, RESTORING)
        assert contents(Path(keep.variables()[constants.ENV_KEPT])) == WHOLE
        # The keeper reads the step and lists the directory side by side.
        await aeventually(lambda: keep.holdings and keep.holdings.has_listed, what="the list")
        record, report = keep.holdings, keep.report()
        assert record is not None
        assert record.port > 0
        assert (report.is_waiting, report.persist_error, report.degraded) == (False, "", "")


async def test_what_is_listed_counts_only_with_the_state(keep_dir: Path, tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    async with persisting_node(keep_dir, shared, 7) as keep:
        assert keep.holdings is not None
        assert keep.holdings.has_listed is False
        keep.restore_phase(replace(active(3, history="1.nonce1.7"), phase=RoundPhase.FORMING))
        await aeventually(lambda: keep.holdings and keep.holdings.has_listed, what="the list")
        assert keep.holdings.persisted == PERSISTED


async def test_many_persisted_steps_of_one_round_hide_none_of_the_round_before(keep_dir: Path, tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    write_steps(shared, keep_dir.parent, 1, lineage=Lineage(0, "nonce0"))
    async with persisting_node(keep_dir, shared, *range(2, 42)) as keep:
        history = "2.nonce2.*,1.nonce1.*,0.nonce0.*"
        keep.restore_phase(replace(active(3, history=history), phase=RoundPhase.FORMING))
        await aeventually(lambda: keep.holdings and keep.holdings.persisted, what="the list")
        assert keep.holdings is not None
        assert [str(each.step.lineage) for each in keep.holdings.older] == ["0.nonce0"]


async def test_a_node_that_has_missed_a_round_lists_the_directory_again(keep_dir: Path, tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    async with persisting_node(keep_dir, shared, 7) as keep:
        keep.restore_phase(replace(active(2), members=(OTHER,)))
        await aeventually(lambda: keep.holdings and keep.holdings.has_listed, what="the list")
        write_steps(shared, keep_dir.parent, 8)
        keep.restore_phase(replace(active(3, history="2.nonce2.*,1.nonce1.8"), phase=RoundPhase.FORMING))
        assert keep.holdings is not None
        assert keep.holdings.has_listed is False
        await aeventually(lambda: keep.holdings and keep.holdings.has_listed, what="another list")
        assert keep.holdings.persisted == PersistedStep(RUN, replace(PERSISTED.step, number=8))


async def test_a_member_of_the_last_round_lists_the_directory_no_further_time(keep_dir: Path, tmp_path: Path) -> None:
    async with persisting_node(keep_dir, tmp_path / "shared", 7) as keep:
        await until_complete(keep, RESTORING)
        keep.restore_phase(replace(active(3, history="2.nonce2.*,1.nonce1.7"), phase=RoundPhase.FORMING))
        assert keep.holdings is not None
        assert keep.holdings.has_listed is True


async def test_the_steps_that_a_killed_keeper_has_listed_still_count(keep_dir: Path, tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    async with persisting_node(keep_dir, shared, 7) as keep:
        await until_complete(keep, RESTORING)
        shared.rename(tmp_path / "away")
        (keeper,) = [each for each in psutil.Process().children() if "elasticjob_agent.keep.keeper" in each.cmdline()]
        keeper.kill()
        await aeventually(lambda: "cannot use" in keep.report().persist_error, what="the error of the next keeper")
        assert keep.holdings is not None
        assert (keep.holdings.persisted, keep.holdings.has_listed) == (PERSISTED, True)


@pytest.mark.parametrize("is_usable", [True, False])
async def test_a_node_reports_the_last_step_that_it_could_not_write(
    keep_dir: Path, tmp_path: Path, *, is_usable: bool
) -> None:
    store, shared = InMemoryStore(), tmp_path / "shared"
    shared.mkdir()
    keep = node_keep(keep_dir, store, HOST, shared, linger_s=60.0 if is_usable else 1.0)
    await keep.start()
    try:
        keep.observe(ME, link_secret=SECRET, leads=False)
        await until_complete(keep, active(1))
        keep.report_start()
        publish(Path(keep.variables()[constants.ENV_KEEP]), "step-7", {"state": b"x"})
        if not is_usable:
            shared.rename(tmp_path / "away")
        await keep.seal()
        suspended = RendezvousState(
            phase=RoundPhase.SUSPENDED, round=1, nonce="ended", run=RUN, history=active(1).history_of_next_round()
        )
        keep.restore_phase(suspended)
        assert keep.holdings is not None
        join(store, ME, replace(keep.holdings, sealed=suspended.nonce))
        await aeventually(lambda: not keep.lingers(suspended), what="the end of the node")
        report = keep.report()
        assert report.persisted_step == (7 if is_usable else None)
        lost = "step 7 was not written to keep.persistTo in the 1 s that this node had at its end: cannot use "
        assert report.persist_error.startswith("" if is_usable else lost)
        assert bool(report.persist_error) is not is_usable
        assert not report.is_waiting
    finally:
        await keep.close(erase=True)
