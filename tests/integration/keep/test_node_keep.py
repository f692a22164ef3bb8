"""The kept steps of a node over a real keeper: what it restores, and that a keeper that is away gives up no step."""

import contextlib
import logging
import socket
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from elasticjob_agent.keep.keeper.messages import OpenRequest
from elasticjob_agent.keep.persist.job_dir import JobDir
from elasticjob_agent.node.keep_settings import KeepSettings, PersistSettings
from elasticjob_agent.node.keeper_lister import KeeperLister
from elasticjob_agent.node.node_keep import NodeKeep
from elasticjob_agent.rendezvous.protocol import transactions
from elasticjob_agent.rendezvous.protocol.keep.sources import persisted_sources
from elasticjob_agent.rendezvous.protocol.member_plan import RestorePhase
from elasticjob_agent.rendezvous.protocol.transactions import SessionIdentity
from elasticjob_api import constants
from elasticjob_api.holdings import HoldingsRecord
from elasticjob_api.kept_steps import KeptStep, Lineage, PersistedStep
from elasticjob_api.keys import Keys
from elasticjob_api.records import NodeRecord
from elasticjob_api.rendezvous_state import Member, RendezvousState, RoundPhase
from elasticjob_etcd.memory.client import InMemoryEtcd
from elasticjob_etcd.memory.store import InMemoryStore
from testing.waiting import aeventually
from tests.integration.keep.parts import contents, publish
from tests.integration.keep.persist.job_dirs import WHOLE, step_of, write_step

ME, OTHER = Member(0, "0000000a"), Member(1, "0000000b")
SECRET = bytes(32)
KEYS = Keys("/elasticjob/cli/test")
HOST = "127.0.0.1"


def active(round_: int, **fields: Any) -> RendezvousState:
    """Return an active state of this node alone."""
    return RendezvousState(
        phase=RoundPhase.ACTIVE,
        round=round_,
        nonce=f"nonce{round_}",
        run="0000000f",
        members=(ME,),
        nprocs="1x1",
        roles="default*1",
        master="10.0.0.1:29500",
        **fields,
    )


def node_keep(
    directory: Path,
    store: InMemoryStore,
    host: str = "",
    shared: Path | None = None,
    etcd: InMemoryEtcd | None = None,
    **settings: float,
) -> NodeKeep:
    """Return the kept steps of a node whose keeper is not started yet; `shared` is where it persists them."""
    volume = OpenRequest(str(directory), KEYS.prefix, host=host, persist_to=str(shared or ""), persist_keep=2)
    persist = None if shared is None else PersistSettings(directory=shared)
    given = KeepSettings(directory=directory, persist=persist, **settings)  # type: ignore[arg-type]  # a table of times
    return NodeKeep(volume, KeeperLister(etcd or InMemoryEtcd(store), KEYS), given)


def join(store: InMemoryStore, member: Member, holdings: HoldingsRecord | None) -> None:
    """Write the records with which a node joins."""
    me = SessionIdentity(KEYS, member, store.grant(60.0).id)
    record = NodeRecord(pod="pod", pod_uid="uid", lease=me.lease, host="host", address=HOST, nproc=1)
    assert store.txn(transactions.join(me, record, spec_revision=0, holdings=holdings)).succeeded


def take_away(volume: Path) -> None:
    """Put a file in the place of the volume, which no keeper can use."""
    volume.rename(volume.with_name("away"))
    volume.touch()


def give_back(volume: Path) -> None:
    """Put the volume back."""
    volume.unlink()
    volume.with_name("away").rename(volume)


async def until_complete(keep: NodeKeep, state: RendezvousState) -> None:
    """Return when the workers of this state may start; fail if the step is given up."""

    def is_complete() -> bool:
        phase = keep.restore_phase(state)
        assert phase is not RestorePhase.FAILED, "the step was given up"
        return phase in {RestorePhase.COMPLETE, RestorePhase.NOT_NEEDED}

    await aeventually(is_complete, what=f"round {state.round} may start")


async def test_a_step_is_restored_by_a_keeper_that_could_not_be_reached_at_first(
    keep_dir: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    others = set(psutil.Process().children())
    keep = node_keep(keep_dir, InMemoryStore())
    await keep.start()
    try:
        keep.observe(ME, link_secret=None, leads=False)
        await until_complete(keep, active(1))
        keep.report_start()
        publish(Path(keep.variables()[constants.ENV_KEEP]), "step-7", {"state": b"x"})
        await keep.seal()
        (process,) = set(psutil.Process().children()) - others
        take_away(keep_dir)
        process.kill()
        state = active(2, history="1.nonce1.7", restore="1.nonce1.7.1")
        assert keep.restore_phase(state) is RestorePhase.PREPARING
        await aeventually(lambda: "not given up yet" in caplog.text, what="the end of the first try")
        give_back(keep_dir)
        await until_complete(keep, state)
        assert contents(Path(keep.variables()[constants.ENV_KEPT])) == {"state": b"x"}
    finally:
        await keep.close(erase=True)


async def test_a_node_fetches_the_step_of_a_round_only_as_its_member(keep_dir: Path) -> None:
    store, step = InMemoryStore(), KeptStep.parse("1.nonce1.7.1")
    holder, idle = (node_keep(keep_dir.with_name(name), store, HOST) for name in ("holder", "idle"))
    try:
        for keep, member in (holder, ME), (idle, OTHER):
            await keep.start()
            keep.observe(member, link_secret=SECRET, leads=False)
        await until_complete(holder, active(1))
        holder.report_start()
        publish(Path(holder.variables()[constants.ENV_KEEP]), "step-7", {"state": b"x"})
        await holder.seal()
        join(store, ME, holder.holdings)
        state = active(2, history="1.nonce1.7", restore=str(step), sources="0:0")
        for keep in (holder, idle):
            await until_complete(keep, state)
        # So the record of its join stays exact: the leader uses it without a `ready`.
        assert idle.holdings is not None
        assert not idle.holdings.steps
        both = active(3, history="1.nonce1.7", restore=str(step), sources="0:0")
        both = replace(both, members=(ME, OTHER), nprocs="1x2", roles="default*2")
        for keep in (holder, idle):
            await until_complete(keep, both)
        assert idle.holdings.steps == {step: frozenset({0})}
    finally:
        await idle.close(erase=True)
        await holder.close(erase=True)


async def test_a_step_is_not_given_up_while_etcd_does_not_answer(
    keep_dir: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store, step = InMemoryStore(), KeptStep.parse("1.nonce1.7.1")
    etcd = InMemoryEtcd(store)
    holder = node_keep(keep_dir.with_name("holder"), store, HOST)
    new = node_keep(keep_dir.with_name("new"), store, HOST, etcd=etcd, restore_timeout_s=5.0)
    try:
        for keep, member in (holder, ME), (new, OTHER):
            await keep.start()
            keep.observe(member, link_secret=SECRET, leads=False)
        await until_complete(holder, active(1))
        holder.report_start()
        publish(Path(holder.variables()[constants.ENV_KEEP]), "step-7", {"state": b"x"})
        await holder.seal()
        join(store, ME, holder.holdings)
        both = active(2, history="1.nonce1.7", restore=str(step), sources="0:0")
        both = replace(both, members=(ME, OTHER), nprocs="1x2", roles="default*2")
        await until_complete(holder, both)
        etcd.disconnect()
        new.restore_phase(both)
        # Each try begins half a second after the one before, so these need more than the time of a restore.
        await aeventually(lambda: caplog.text.count("the in-memory etcd is disconnected") >= 12, what="some tries")
        etcd.reconnect()
        await until_complete(new, both)
        assert contents(Path(new.variables()[constants.ENV_KEPT])) == {"state": b"x"}
    finally:
        await new.close(erase=True)
        await holder.close(erase=True)


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
        assert (keep.report().is_waiting, keep.report().persist_error) == (False, "")


async def test_a_persisted_step_has_the_whole_time_of_a_restore_after_a_directory_could_not_be_read(
    keep_dir: Path, tmp_path: Path
) -> None:
    """A file system of a network may show a step late."""
    shared, limit_s = tmp_path / "shared", 3.0
    async with persisting_node(keep_dir, shared, 6, 7, restore_timeout_s=limit_s) as keep:
        await aeventually(lambda: keep.report().persisted_step == 7, what="the list")
        away, began_s = shared.rename(tmp_path / "away"), time.monotonic()
        await until_waiting(keep, RESTORING, "cannot use ")
        await aeventually(lambda: time.monotonic() > began_s + limit_s, what="the time of a restore is over")
        (whole,) = away.glob("*/step-7.*")
        late = whole.rename(tmp_path / "late")
        away.rename(shared)
        await aeventually(lambda: not keep.report().is_waiting, what="the directory can be read")
        late.rename(shared / whole.relative_to(away))
        await until_complete(keep, RESTORING)


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
        record, report = keep.holdings, keep.report()
        assert record is not None
        assert (record.port > 0, record.has_listed) == (True, True)
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
