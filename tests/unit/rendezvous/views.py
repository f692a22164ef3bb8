"""A builder of a job's keys, written one after another, and of the leader's view of them; for the tables of tests.

Each call writes one key at the next revision, exactly as an agent or the operator would. So the tables also test the
real parser. Slot 3 belongs to incarnation `00000003` unless another is given.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Self

from elasticjob_agent.rendezvous.protocol.membership import Observations
from elasticjob_api import records, rendezvous_state
from elasticjob_api.holdings import HoldingsRecord, encode_holdings
from elasticjob_api.keys import Keys
from elasticjob_api.link_secret import encode_link_secret
from elasticjob_api.records import (
    NO_ROUND,
    Completion,
    ExpectedSlots,
    NodeRecord,
    SlotOwner,
    SpecRecord,
    Tombstone,
    TombstoneReason,
    WorkerFailure,
)
from elasticjob_api.rendezvous_state import Member, Membership, RendezvousState, RoundPhase
from elasticjob_api.rendezvous_view import NodeEntry, RendezvousView, parse_view
from elasticjob_api.runtime_config import encode_runtime_config, runtime_config_of
from elasticjob_etcd.interface import KeyValue

KEYS = Keys("/elasticjob/cli/test")
OPERATOR = "operator-1"


def member(slot: int, incarnation: str | None = None) -> Member:
    """Return the member that a builder creates in a slot."""
    return Member(slot, incarnation or f"{slot:08x}")


def a_node(slot: int, **changes: Any) -> NodeRecord:
    """Return a node record; its lease is 100 + slot, its master port 20000 + slot."""
    plain = NodeRecord(
        pod=f"pod-{slot}",
        pod_uid=f"uid-{slot}",
        lease=100 + slot,
        host=f"host-{slot}",
        address=f"10.0.0.{slot + 1}",
        nproc=1,
        master_port=20000 + slot,
    )
    return replace(plain, **changes)


def a_live_node(slot: int, *, incarnation: str | None = None, **changes: Any) -> NodeEntry:
    """Return a node of a view."""
    return NodeEntry(member(slot, incarnation), a_node(slot, **changes), create_revision=slot + 1)


def observed_at(now_s: float = 0.0, **changes: Any) -> Observations:
    """Return a leader's observations; all times are 0 unless given."""
    plain = Observations(now_s=now_s, forming_since_s=0.0, newest_key_s=0.0, enough_since_s=0.0, joiner_since_s=None)
    return replace(plain, **changes)


class ViewBuilder:
    """The keys of one job, for a view."""

    def __init__(self, spec: SpecRecord) -> None:
        self.revision = 1
        self.items: dict[str, KeyValue] = {}
        self._spec = spec
        self.unpushed()._put(KEYS.runtime_config, encode_runtime_config(runtime_config_of(spec)))
        self._put(KEYS.link_secret, encode_link_secret(b"k" * 32))

    def _put(self, key: str, value: bytes) -> Self:
        self.revision += 1
        old = self.items.get(key)
        created = old.create_revision if old else self.revision
        self.items[key] = KeyValue(key, value, created, self.revision, version=old.version + 1 if old else 1)
        return self

    def put_raw(self, key: str, value: bytes) -> Self:
        """Write any bytes at any key."""
        return self._put(key, value)

    def no_spec(self) -> Self:
        """Delete the spec."""
        del self.items[KEYS.spec]
        return self

    def spec(self, **changes: Any) -> Self:
        """Change the spec, and push the change to the agents."""
        return self.unpushed(**changes)._put(KEYS.runtime_config, encode_runtime_config(runtime_config_of(self._spec)))

    def unpushed(self, **changes: Any) -> Self:
        """Change the spec without a push to the agents."""
        self._spec = replace(self._spec, **changes)
        return self._put(KEYS.spec, records.encode(self._spec))

    def owned_by(self, **owners: str) -> Self:
        """Add an operator and owners: slot (`s0`, `s1`, …) → pod."""
        slots = {int(name[1:]): SlotOwner(pod) for name, pod in owners.items()}
        return self.spec(operator=OPERATOR, slots=slots)

    def expected(self, *slots: int) -> Self:
        """Let the operator expect pods in these slots."""
        return self._put(KEYS.expected, records.encode(ExpectedSlots(slots)))

    def state(self, phase: RoundPhase, round_: int, **fields: Any) -> Self:
        """Write any rendezvous state."""
        value = RendezvousState(phase=phase, round=round_, nonce=fields.pop("nonce", f"nonce{round_}"), **fields)
        return self._put(KEYS.rendezvous_state, rendezvous_state.encode_state(value))

    def forming(self, round_: int, **fields: Any) -> Self:
        """Write a forming round."""
        return self.state(RoundPhase.FORMING, round_, **fields)

    def active(self, round_: int, *slots: int, **fields: Any) -> Self:
        """Write an active round with the members in these slots, and `P/c/members`."""
        members = tuple(member(slot) for slot in slots)
        self.state(RoundPhase.ACTIVE, round_, members=members, **fields)
        return self.members(round_, *slots)

    def members(self, round_: int, *slots: int) -> Self:
        """Write `P/c/members`."""
        value = Membership(round_, tuple(member(slot) for slot in slots))
        return self._put(KEYS.members, rendezvous_state.encode_membership(value))

    def node(self, slot: int, *, incarnation: str | None = None, ready: int = NO_ROUND, **changes: Any) -> Self:
        """Write a live node."""
        who = member(slot, incarnation)
        return self._put(KEYS.node(who.slot, who.incarnation), records.encode(a_node(slot, ready=ready, **changes)))

    def nodes(self, *slots: int, ready: int = NO_ROUND) -> Self:
        """Write several nodes with equal records."""
        for slot in slots:
            self.node(slot, ready=ready)
        return self

    def lost(self, slot: int) -> Self:
        """Delete the node key of this slot's usual incarnation."""
        who = member(slot)
        self.items.pop(KEYS.node(who.slot, who.incarnation), None)
        return self

    def holdings(self, slot: int, record: HoldingsRecord) -> Self:
        """Write the holdings of this slot's usual incarnation."""
        who = member(slot)
        return self._put(KEYS.holdings(who.slot, who.incarnation), encode_holdings(record))

    def tombstone(self, slot: int, reason: TombstoneReason) -> Self:
        """Write a tombstone for this slot's usual incarnation."""
        who = member(slot)
        return self._put(KEYS.tombstone(who.slot, who.incarnation), records.encode(Tombstone(reason)))

    def failure(self, round_: int, slot: int, local_rank: int = 0, **fields: Any) -> Self:
        """Write a worker's failure: exit code 1, by itself, unless given otherwise."""
        plain = WorkerFailure(incarnation=member(slot).incarnation, rank=slot, exit_code=1, pod=f"pod-{slot}")
        return self._put(KEYS.failure(round_, slot, local_rank), records.encode(replace(plain, **fields)))

    def completion(self, round_: int, *slots: int) -> Self:
        """Write that all workers of these members exited with code 0."""
        for slot in slots:
            self._put(KEYS.completion(round_, slot), records.encode(Completion(member(slot).incarnation)))
        return self

    def build(self) -> RendezvousView:
        """Return the leader's view."""
        return parse_view(KEYS, self.items)


def view_builder(least: int = 1, most: int = 4, **spec: Any) -> ViewBuilder:
    """Return a job of the command line with `least` to `most` nodes, as many as possible desired."""
    return ViewBuilder(SpecRecord(min=least, max=most, desired=spec.pop("desired", most), **spec))


def slots_of(nodes: Iterable[NodeEntry]) -> list[int]:
    """Return the slots of nodes, in their order."""
    return [node.member.slot for node in nodes]
