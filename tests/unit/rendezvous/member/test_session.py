"""Joining: what an agent waits for, and how long."""

import asyncio
import itertools
from dataclasses import replace

import pytest

from elasticjob_agent.rendezvous.errors import NoSpec, Unreachable
from elasticjob_agent.rendezvous.member.join import NodeIdentity
from elasticjob_agent.rendezvous.member.no_keep import NoKeep
from elasticjob_agent.rendezvous.member.session import SPEC_TIMEOUT_S, Session, SessionFactory, next_identity
from elasticjob_agent.rendezvous.protocol.interfaces import KeepPort
from elasticjob_agent.rendezvous.protocol.last_known_state import LastKnownState
from elasticjob_api import records
from elasticjob_api.holdings import HoldingsRecord, decode_holdings
from elasticjob_api.kept_steps import KeptStep, Lineage
from elasticjob_api.keys import Keys
from elasticjob_api.records import SlotOwner, SpecRecord
from elasticjob_api.rendezvous_state import Member, RendezvousState, RoundPhase, encode_state
from elasticjob_etcd.errors import StoreReset
from elasticjob_etcd.interface import Put, Txn
from elasticjob_etcd.memory.client import InMemoryEtcd, InMemoryStore
from testing.scripted_keep import ScriptedKeep

KEYS = Keys("/elasticjob/test")
SPEC = SpecRecord(min=1, max=2, desired=2, operator="op", slots={1: SlotOwner("pod-0")})
GIVEN = NodeIdentity(keys=KEYS, pod="pod-0", pod_uid="u", host="h", address="10.0.0.1", nproc=1, slot=1)


def session_factory(
    store: InMemoryStore, identity: NodeIdentity, *, second_s: float, keep: KeepPort | None = None
) -> SessionFactory:
    clock = itertools.count(0.0, second_s)
    return SessionFactory(
        etcd=InMemoryEtcd(store),
        identity=identity,
        clock=lambda: next(clock),
        random_hex=lambda: "0000000a",
        keep=keep or NoKeep(),
    )


async def open_session(store: InMemoryStore, identity: NodeIdentity, *, second_s: float) -> Session | None:
    """Join with a clock that advances by `second_s` at each read."""
    return await session_factory(store, identity, second_s=second_s).open(
        master_port=1, timeout_s=600.0, cancelled=lambda: False
    )


async def test_an_agent_in_a_wiped_etcd_waits_for_the_operators_spec_and_joins() -> None:
    store = InMemoryStore()
    opening = asyncio.create_task(open_session(store, GIVEN, second_s=0.01))
    await asyncio.sleep(0)  # it has read once
    assert store.range(KEYS.nodes).kvs == ()
    store.txn(Txn((), (Put(KEYS.spec, records.encode(SPEC)),)))
    session = await opening
    assert session is not None
    await session.close()
    assert [kv.key for kv in store.range(KEYS.nodes).kvs] == [KEYS.node(1, "0000000a")]


async def test_an_agent_that_returns_before_its_watch_shows_the_wipe_waits_and_writes_the_spec() -> None:
    store, wanted = InMemoryStore(), SpecRecord(min=1, max=1, desired=1)
    unknown = replace(GIVEN, slot=None, may_clear_finished_run=False)
    identities = iter((unknown, replace(unknown, own_spec=wanted)))  # the watch shows the wipe between two attempts
    session = await session_factory(store, unknown, second_s=0.01).open(
        master_port=1,
        timeout_s=600.0,
        cancelled=lambda: False,
        make_identity=lambda: next(identities),
        is_over=lambda: False,
    )
    assert session is not None
    await session.close()
    assert session.requirements.own == replace(wanted, keep_alive_s=6.0)


async def test_an_agent_that_returns_to_a_deleted_job_does_not_wait() -> None:
    with pytest.raises(NoSpec):
        await session_factory(InMemoryStore(), replace(GIVEN, slot=None), second_s=0.0).open(
            master_port=1, timeout_s=600.0, cancelled=lambda: False, is_over=lambda: True
        )


NEWEST = RendezvousState(phase=RoundPhase.ACTIVE, round=3, nonce="0000000c")
OWN = SpecRecord(min=1, max=1, desired=1)
ALONE = replace(GIVEN, slot=None, own_spec=replace(OWN, max=2))


@pytest.mark.parametrize(
    ("state", "observed_here", "resets", "known_resets", "writes"),
    [
        (NEWEST, True, 0, 0, None),
        (NEWEST, True, 2, 2, None),
        (None, True, 0, 0, None),
        (NEWEST, True, 1, 0, OWN),
        (NEWEST, False, 1, 1, OWN),
        (None, False, 1, 1, OWN),
        (None, False, 0, 0, ALONE.own_spec),
    ],
    ids=["it runs", "it runs again", "it was deleted", "wiped now", "wiped before", "before any state", "no state yet"],
)
def test_a_returning_agent_begins_a_job_only_where_none_can_have_ended(
    state: RendezvousState | None, resets: int, known_resets: int, writes: SpecRecord | None, *, observed_here: bool
) -> None:
    identity = next_identity(
        ALONE, LastKnownState(state=state, observed_here=observed_here), OWN, resets=resets, known_resets=known_resets
    )
    assert (identity.own_spec, identity.may_clear_finished_run) == (writes, False)


async def test_an_agent_without_a_slot_and_without_a_spec_does_not_wait() -> None:
    with pytest.raises(NoSpec):
        await open_session(InMemoryStore(), replace(GIVEN, slot=None), second_s=0.0)


async def test_a_job_without_a_spec_for_long_was_deleted_and_the_agent_writes_nothing() -> None:
    store = InMemoryStore()
    with pytest.raises(NoSpec, match="there is no spec under /elasticjob/test"):
        await open_session(store, GIVEN, second_s=SPEC_TIMEOUT_S)
    assert store.range(KEYS.everything).kvs == ()


async def test_an_agent_whose_etcd_is_away_logs_whole_seconds_and_gives_up(caplog: pytest.LogCaptureFixture) -> None:
    etcd = InMemoryEtcd(InMemoryStore())
    etcd.disconnect()
    factory = replace(session_factory(InMemoryStore(), GIVEN, second_s=1.23456), etcd=etcd)
    with pytest.raises(Unreachable, match="etcd did not answer within 2 s"):
        await factory.open(master_port=1, timeout_s=2.0, cancelled=lambda: False)
    assert caplog.messages == ["etcd does not answer, trying for another 1 s: the in-memory etcd is disconnected"]


ME = Member(1, "0000000a")
NAMED = replace(NEWEST, members=(ME,))


@pytest.mark.parametrize("is_reset", [False, True], ids=["the lease ended", "etcd was wiped"])
async def test_a_node_writes_its_holdings_when_it_joins_and_when_it_comes_back(is_reset: bool) -> None:  # noqa: FBT001 -- a column of the table
    store, keep = InMemoryStore(), ScriptedKeep()
    store.txn(Txn((), (Put(KEYS.spec, records.encode(SPEC)), Put(KEYS.rendezvous_state, encode_state(NAMED)))))
    keep.record = HoldingsRecord(port=7, steps={KeptStep(Lineage(2, "0000000b"), 5, 1): frozenset({0})})
    factory = session_factory(store, GIVEN, second_s=0.0, keep=keep)
    session = await factory.open(master_port=1, timeout_s=600.0, cancelled=lambda: False)
    assert session is not None
    assert holdings_in(store) == (keep.record, session.me.lease)
    session.started = NAMED.round, NAMED.nonce
    store.expire(session.me.lease)
    assert holdings_in(store) is None
    if is_reset:
        store.wipe()
        with pytest.raises(StoreReset):  # as the watch finds out
            await factory.etcd.get(KEYS.spec)
    keep.record = HoldingsRecord(port=7)
    assert await factory.restore(session, LastKnownState(state=NAMED), was_reset=is_reset)
    assert holdings_in(store) == (keep.record, session.me.lease)
    await session.close()


def holdings_in(store: InMemoryStore) -> tuple[HoldingsRecord, int] | None:
    """Return the holdings of the node, and their lease."""
    kv = store.get(KEYS.holdings(ME.slot, ME.incarnation))
    return None if kv is None else (decode_holdings(kv.value), kv.lease)
