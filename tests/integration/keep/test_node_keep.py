"""The kept steps of a node over a real keeper: what it restores, and that a keeper that is away gives up no step."""

import asyncio
import logging
import socket
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from elasticjob_agent.keep.keeper.messages import BeginRequest, PeersRequest
from elasticjob_agent.node.node_keep import NodeKeep
from elasticjob_agent.rendezvous.protocol.member_plan import RestorePhase
from elasticjob_api import constants
from elasticjob_api.kept_steps import KeptStep
from elasticjob_api.rendezvous_state import RendezvousState
from elasticjob_etcd.memory.client import InMemoryEtcd
from elasticjob_etcd.memory.store import InMemoryStore
from testing.waiting import aeventually
from tests.integration.keep.node_keeps import (
    HOST,
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


STEP = KeptStep.parse("1.nonce1.7.1")


async def hold_step_7(holder: NodeKeep, other: NodeKeep) -> None:
    """Start two nodes, and let the first one hold the step, which it has published alone."""
    for keep, member in (holder, ME), (other, OTHER):
        await keep.start()
        keep.observe(member, link_secret=SECRET, leads=False)
    await until_complete(holder, active(1))
    holder.report_start()
    publish(Path(holder.variables()[constants.ENV_KEEP]), "step-7", {"state": b"x"})
    await holder.seal()


def restoring_both(round_: int) -> RendezvousState:
    """Return an active state of both nodes that restores the step."""
    both = active(round_, history="1.nonce1.7", restore=str(STEP), sources="0:0")
    return replace(both, members=(ME, OTHER), nprocs="1x2", roles="default*2")


async def test_a_node_fetches_the_step_of_a_round_only_as_its_member(keep_dir: Path) -> None:
    store = InMemoryStore()
    holder, idle = (node_keep(keep_dir.with_name(name), store, HOST) for name in ("holder", "idle"))
    try:
        await hold_step_7(holder, idle)
        join(store, ME, holder.holdings)
        state = active(2, history="1.nonce1.7", restore=str(STEP), sources="0:0")
        for keep in (holder, idle):
            await until_complete(keep, state)
        # So the record of its join stays exact: the leader uses it without a `ready`.
        assert idle.holdings is not None
        assert not idle.holdings.steps
        both = restoring_both(3)
        for keep in (holder, idle):
            await until_complete(keep, both)
        assert idle.holdings.steps == {STEP: frozenset({0})}
    finally:
        await idle.close(erase=True)
        await holder.close(erase=True)


async def test_a_step_is_not_given_up_while_etcd_does_not_answer(
    keep_dir: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = InMemoryStore()
    etcd = InMemoryEtcd(store)
    holder = node_keep(keep_dir.with_name("holder"), store, HOST)
    new = node_keep(keep_dir.with_name("new"), store, HOST, etcd=etcd, restore_timeout_s=5.0)
    try:
        await hold_step_7(holder, new)
        join(store, ME, holder.holdings)
        both = restoring_both(2)
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


async def test_a_step_is_not_given_up_while_its_holder_lives_and_cannot_be_reached(
    keep_dir: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = InMemoryStore()
    holder, new = (node_keep(keep_dir.with_name(name), store, HOST) for name in ("holder", "new"))
    try:
        await hold_step_7(holder, new)
        assert holder.holdings is not None
        with socket.create_server((HOST, 0)) as listener:
            closed = listener.getsockname()[1]
        lease = join(store, ME, replace(holder.holdings, port=closed))
        both = restoring_both(2)
        await until_complete(holder, both)

        def has_tried() -> bool:
            assert new.restore_phase(both) is not RestorePhase.FAILED, "the step was given up"
            assert new.report().restoring == 7
            return "step 7 is not given up yet" in caplog.text

        await aeventually(has_tried, what="a try without success")
        store.revoke(lease)
        join(store, ME, holder.holdings)
        await until_complete(new, both)
        assert (holder.report().restoring, new.report().restoring) == (None, None)
        assert contents(Path(new.variables()[constants.ENV_KEPT])) == {"state": b"x"}
    finally:
        await new.close(erase=True)
        await holder.close(erase=True)


async def test_a_step_is_given_up_at_once_when_no_holder_lives(keep_dir: Path) -> None:
    new = node_keep(keep_dir, InMemoryStore(), HOST, restore_timeout_s=3600.0)
    try:
        await new.start()
        new.observe(ME, link_secret=SECRET, leads=False)
        state = active(2, history="1.nonce1.7", restore="1.nonce1.7.1")
        await aeventually(lambda: new.restore_phase(state) is RestorePhase.FAILED, what="the step is given up")
    finally:
        await new.close(erase=True)


async def test_a_leader_whose_keeper_is_late_keeps_no_step_of_the_round_and_commits_those_of_others(
    keep_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep = node_keep(keep_dir, InMemoryStore())
    await keep.start()
    sent: list[PeersRequest] = []
    monkeypatch.setattr(keep._keeper, "set_peers", sent.append)
    begin_round = keep._keeper.begin_round

    async def begin_late(begun: BeginRequest) -> Path:
        directory = await begin_round(begun)
        if begun.lineage.round == 1:
            await asyncio.Event().wait()
        return directory

    monkeypatch.setattr(keep._keeper, "begin_round", begin_late)
    try:
        keep.observe(ME, link_secret=SECRET, leads=True)
        await until_complete(keep, active(1))
        assert constants.ENV_KEEP not in keep.variables()
        assert keep.report().degraded.startswith(
            "steps of round 1 are not kept on this node: the keeper did not answer"
        )
        keep.report_start()
        await aeventually(lambda: sent, what="the keeper knows the members of the round")
        await keep.seal()
        await until_complete(keep, active(2))
        assert constants.ENV_KEEP in keep.variables()
        assert "round 1" not in keep.report().degraded
    finally:
        await keep.close(erase=True)
