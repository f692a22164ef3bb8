"""The kept steps of one node over a real keeper: a step is not given up because the keeper is away for a while."""

import logging
from pathlib import Path
from typing import Any

import psutil
import pytest

from elasticjob_agent.keep.keeper.messages import OpenRequest
from elasticjob_agent.node.keep_settings import KeepSettings
from elasticjob_agent.node.keeper_lister import KeeperLister
from elasticjob_agent.node.node_keep import NodeKeep
from elasticjob_agent.rendezvous.protocol.member_plan import RestorePhase
from elasticjob_api import constants
from elasticjob_api.keys import Keys
from elasticjob_api.rendezvous_state import Member, RendezvousState, RoundPhase
from elasticjob_etcd.memory.client import InMemoryEtcd
from elasticjob_etcd.memory.store import InMemoryStore
from testing.waiting import aeventually
from tests.integration.keep.parts import contents, publish

ME = Member(0, "0000000a")
KEYS = Keys("/elasticjob/cli/test")


def active(round_: int, **fields: Any) -> RendezvousState:
    """Return an active state of this node alone."""
    return RendezvousState(
        phase=RoundPhase.ACTIVE,
        round=round_,
        nonce=f"nonce{round_}",
        run="run",
        members=(ME,),
        nprocs="1x1",
        roles="default*1",
        master="10.0.0.1:29500",
        **fields,
    )


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
    keep = NodeKeep(
        OpenRequest(str(keep_dir), KEYS.prefix),
        KeeperLister(InMemoryEtcd(InMemoryStore()), KEYS),
        KeepSettings(directory=keep_dir),
    )
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
