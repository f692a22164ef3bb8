"""The kept steps of a node over a real keeper, and what its member writes into the store."""

from pathlib import Path
from typing import Any

from elasticjob_agent.keep.keeper.messages import OpenRequest
from elasticjob_agent.node.keep_settings import KeepSettings, PersistSettings
from elasticjob_agent.node.keeper_lister import KeeperLister
from elasticjob_agent.node.node_keep import NodeKeep
from elasticjob_agent.rendezvous.protocol import transactions
from elasticjob_agent.rendezvous.protocol.member_plan import RestorePhase
from elasticjob_agent.rendezvous.protocol.transactions import SessionIdentity
from elasticjob_api.holdings import HoldingsRecord
from elasticjob_api.keys import Keys
from elasticjob_api.records import NodeRecord
from elasticjob_api.rendezvous_state import Member, RendezvousState, RoundPhase
from elasticjob_etcd.memory.client import InMemoryEtcd
from elasticjob_etcd.memory.store import InMemoryStore
from testing.waiting import aeventually

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


def join(store: InMemoryStore, member: Member, holdings: HoldingsRecord | None) -> int:
    """Write the records with which a node joins; return its lease."""
    me = SessionIdentity(KEYS, member, store.grant(60.0).id)
    record = NodeRecord(pod="pod", pod_uid="uid", lease=me.lease, host="host", address=HOST, nproc=1)
    assert store.txn(transactions.join(me, record, spec_revision=0, holdings=holdings)).succeeded
    return me.lease


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
