"""Joining: the lease, the slot, the node key, and the requests for them."""

from dataclasses import replace

import pytest

from elasticjob_agent.rendezvous.errors import NoSpec, Superseded
from elasticjob_agent.rendezvous.member import join as joining
from elasticjob_agent.rendezvous.member.join import JoinResult, NodeIdentity, Ports
from elasticjob_api import records
from elasticjob_api.bootstrap import bootstrap_of
from elasticjob_api.keys import Keys
from elasticjob_api.records import SlotOwner, SpecRecord
from elasticjob_etcd.interface import KeyValue, Lease, Put, Range, Txn, TxnResult
from elasticjob_etcd.memory.client import InMemoryEtcd, InMemoryStore

KEYS = Keys("/elasticjob/test")
SPEC = SpecRecord(min=1, max=2, desired=2)
PROFILE = NodeIdentity(keys=KEYS, pod="pod-0", pod_uid="u", host="h", address="10.0.0.1", nproc=1)
PORTS = Ports(master=1, link=4321)


async def join(store: InMemoryStore, identity: NodeIdentity) -> JoinResult:
    return await joining.join(InMemoryEtcd(store), identity, ports=PORTS, random_hex=lambda: "0000000a")


async def test_the_first_agent_without_an_operator_writes_its_own_keep_alive_time_into_the_spec() -> None:
    store = InMemoryStore()
    joined = await join(store, replace(PROFILE, own_spec=replace(SPEC, keep_alive_s=9.0)))
    assert (joined.lease.ttl_s, joined.requirements.bootstrap.keep_alive_s) == (9.0, 9.0)
    assert store.keep_alive(joined.me.lease) == 9.0


async def test_a_later_agent_has_the_lease_time_of_the_spec() -> None:
    store = InMemoryStore()
    written = replace(SPEC, keep_alive_s=20.0, operator="op", slots={1: SlotOwner("pod-0")})
    store.txn(Txn((), (Put(KEYS.spec, records.encode(written)),)))
    joined = await join(store, replace(PROFILE, slot=1))
    assert (joined.lease.ttl_s, store.keep_alive(joined.me.lease)) == (20.0, 20.0)


async def test_the_node_record_has_the_port_of_its_link() -> None:
    joined = await join(InMemoryStore(), replace(PROFILE, own_spec=SPEC))
    assert joined.last.node.link_port == 4321


@pytest.mark.parametrize("spec", [b"", b"nonsense", b'{"v":1}'])
async def test_an_unreadable_spec_is_an_error_and_leaves_no_lease_behind(spec: bytes) -> None:
    store = InMemoryStore()
    store.txn(Txn((), (Put(KEYS.spec, spec),)))
    with pytest.raises(Superseded):
        await join(store, replace(PROFILE, slot=1))
    assert store.range(KEYS.nodes).kvs == ()


async def test_an_agent_whose_slot_belongs_to_another_pod_writes_nothing() -> None:
    store = InMemoryStore()
    written = replace(SPEC, operator="op", slots={1: SlotOwner("pod-9")})
    at = store.txn(Txn((), (Put(KEYS.spec, records.encode(written)),))).revision
    with pytest.raises(Superseded, match=r"slot 1 belongs to pod-9, not to pod-0"):
        await join(store, replace(PROFILE, slot=1))
    assert store.range(KEYS.everything).revision == at


class ChangingSpec(InMemoryEtcd):
    """An etcd in which the spec changes once, between its read and the join."""

    def __init__(self, store: InMemoryStore, wanted: SpecRecord) -> None:
        super().__init__(store)
        self._store, self._wanted = store, [wanted]

    async def lease_grant(self, ttl_s: float) -> Lease:
        while self._wanted:
            self._store.txn(Txn((), (Put(KEYS.spec, records.encode(self._wanted.pop())),)))
        return await super().lease_grant(ttl_s)


async def test_the_spec_can_change_while_a_node_joins() -> None:
    store = InMemoryStore()
    before = replace(SPEC, keep_alive_s=6.0, operator="op", slots={1: SlotOwner("pod-0")})
    store.txn(Txn((), (Put(KEYS.spec, records.encode(before)),)))
    etcd = ChangingSpec(store, replace(before, keep_alive_s=20.0))
    joined = await joining.join(etcd, replace(PROFILE, slot=1), ports=PORTS, random_hex=lambda: "0000000a")
    assert (joined.requirements.bootstrap.keep_alive_s, joined.lease.ttl_s) == (20.0, 20.0)
    assert [kv.lease for kv in store.range(KEYS.nodes).kvs] == [joined.me.lease]


async def test_a_node_does_not_join_with_a_slot_that_was_reassigned_meanwhile() -> None:
    store = InMemoryStore()
    before = replace(SPEC, operator="op", slots={1: SlotOwner("pod-0")})
    store.txn(Txn((), (Put(KEYS.spec, records.encode(before)),)))
    etcd = ChangingSpec(store, replace(before, slots={1: SlotOwner("pod-9")}))
    with pytest.raises(Superseded):
        await joining.join(etcd, replace(PROFILE, slot=1), ports=PORTS, random_hex=lambda: "0000000a")
    assert store.range(KEYS.nodes).kvs == ()


class RecordingEtcd(InMemoryEtcd):
    """An etcd that records its requests."""

    def __init__(self, store: InMemoryStore) -> None:
        super().__init__(store)
        self.requests: list[str] = []

    async def get(self, key: str) -> KeyValue | None:
        self.requests.append(f"get {key}")
        return await super().get(key)

    async def range(self, prefix: str) -> Range:
        self.requests.append(f"range {prefix}")
        return await super().range(prefix)

    async def lease_grant(self, ttl_s: float) -> Lease:
        self.requests.append(f"grant {ttl_s}")
        return await super().lease_grant(ttl_s)

    async def lease_revoke(self, lease_id: int) -> bool:
        self.requests.append("revoke")
        return await super().lease_revoke(lease_id)

    async def txn(self, txn: Txn) -> TxnResult:
        self.requests.append("txn")
        return await super().txn(txn)


def with_bootstrap(store: InMemoryStore, spec: SpecRecord) -> NodeIdentity:
    """Return a pod that the operator created from this spec."""
    revision = store.txn(Txn((), (Put(KEYS.spec, records.encode(spec)),))).revision
    return replace(PROFILE, slot=1, bootstrap=bootstrap_of(spec, revision))


OWNED = replace(SPEC, operator="op", slots={1: SlotOwner("pod-0")}, keep_alive_s=20.0, graceful_shutdown_s=77.0)


async def test_a_pod_with_a_bootstrap_joins_without_a_read_of_the_spec() -> None:
    store = InMemoryStore()
    etcd, identity = RecordingEtcd(store), with_bootstrap(store, OWNED)
    joined = await joining.join(etcd, identity, ports=PORTS, random_hex=lambda: "0000000a")
    assert etcd.requests == ["grant 20.0", "txn"]
    assert (joined.lease.ttl_s, joined.requirements.is_operated) == (20.0, True)
    assert joined.requirements.bootstrap.runtime_config.graceful_shutdown_s == 77.0


async def test_the_key_is_written_and_the_state_is_read_when_the_watch_is_established() -> None:
    store = InMemoryStore()
    etcd, identity = RecordingEtcd(store), with_bootstrap(store, OWNED)

    async def watching() -> None:
        etcd.requests.append("watching")

    await joining.join(etcd, identity, ports=PORTS, random_hex=lambda: "0000000a", watching=watching)
    assert etcd.requests == ["grant 20.0", "watching", "txn"]


async def test_a_bootstrap_of_an_older_spec_is_ignored() -> None:
    store = InMemoryStore()
    etcd, identity = RecordingEtcd(store), with_bootstrap(store, OWNED)
    with_bootstrap(store, replace(OWNED, keep_alive_s=9.0, graceful_shutdown_s=1.0))
    joined = await joining.join(etcd, identity, ports=PORTS, random_hex=lambda: "0000000a")
    assert etcd.requests == ["grant 20.0", "txn", "revoke", f"get {KEYS.spec}", "grant 9.0", "txn"]
    assert (joined.lease.ttl_s, joined.requirements.bootstrap.runtime_config.graceful_shutdown_s) == (9.0, 1.0)
    assert [kv.lease for kv in store.range(KEYS.nodes).kvs] == [joined.me.lease]


async def test_a_pod_that_was_replaced_since_its_bootstrap_leaves_no_key_and_no_lease() -> None:
    store = InMemoryStore()
    etcd, identity = RecordingEtcd(store), with_bootstrap(store, OWNED)
    at = store.txn(Txn((), (Put(KEYS.spec, records.encode(replace(OWNED, slots={1: SlotOwner("pod-9")}))),)))
    with pytest.raises(Superseded, match=r"slot 1 belongs to pod-9, not to pod-0"):
        await joining.join(etcd, identity, ports=PORTS, random_hex=lambda: "0000000a")
    assert store.range(KEYS.everything).revision == at.revision
    assert etcd.requests == ["grant 20.0", "txn", "revoke", f"get {KEYS.spec}"]


async def test_a_pod_with_a_bootstrap_does_not_join_a_job_without_a_spec() -> None:
    with pytest.raises(NoSpec):
        await join(InMemoryStore(), with_bootstrap(InMemoryStore(), OWNED))
