"""All keys of one job at one revision of etcd, decoded: for the leader, for agents that join, and for the operator.

All of it is the job's claim about itself, so it decides about that job only. A record that cannot be decoded is left
out and named in `unreadable`: it may cost its writer the membership, but never ends its reader. Nothing here decides
anything.
"""

import functools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any, NamedTuple, Protocol

from elasticjob_api import records, rendezvous_state
from elasticjob_api.errors import RecordError
from elasticjob_api.holdings import HoldingsRecord, decode_holdings
from elasticjob_api.keys import FailureKey, Keys, Kind, ParsedKey
from elasticjob_api.link_secret import decode_link_secret
from elasticjob_api.records import (
    Completion,
    ExpectedSlots,
    NodeRecord,
    NodeReport,
    NodeSamples,
    SpecRecord,
    Tombstone,
    TombstoneReason,
    WorkerFailure,
)
from elasticjob_api.rendezvous_state import Member, Membership, RendezvousState, RoundPhase
from elasticjob_api.runtime_config import RuntimeConfig, decode_runtime_config


@dataclass(frozen=True, slots=True)
class NodeEntry:
    """An existing node key: the session of one agent whose lease is alive."""

    member: Member
    record: NodeRecord
    create_revision: int
    lease: int = 0


@dataclass(frozen=True, slots=True)
class FailureEntry:
    """A failure record, and the revision that orders it."""

    key: FailureKey
    failure: WorkerFailure
    revision: int


@dataclass(frozen=True, kw_only=True)
class RendezvousView:
    """One job at one revision; derived values are computed once.

    The revision of a key that does not exist is 0; that of a key that cannot be decoded is another number.
    """

    revision: int = 0
    spec: SpecRecord | None = None
    spec_revision: int = 0
    state: RendezvousState | None = None
    state_revision: int = 0
    state_create_revision: int = 0
    """The revision in which the key of the state was created; only in an agent's view."""
    membership: Membership | None = None
    membership_revision: int = 0
    expected: frozenset[int] = frozenset()
    expected_revision: int = 0
    runtime_config: RuntimeConfig | None = None
    runtime_config_revision: int = 0
    link_secret: bytes | None = None
    link_secret_revision: int = 0
    nodes: Mapping[Member, NodeEntry] = field(default_factory=dict)
    holdings: Mapping[Member, HoldingsRecord] = field(default_factory=dict)
    """The parts of steps that each node has whole; only in an agent's view."""
    reports: Mapping[Member, NodeReport] = field(default_factory=dict)
    samples: Mapping[Member, NodeSamples] = field(default_factory=dict)
    tombstones: Mapping[Member, Tombstone] = field(default_factory=dict)
    failures: Mapping[FailureKey, FailureEntry] = field(default_factory=dict)
    completions: Mapping[tuple[int, int], Member] = field(default_factory=dict)
    """Round and slot → the member whose workers all exited with code 0."""
    unreadable: tuple[str, ...] = ()
    empty: bool = True
    """Whether there is no key at all."""
    quota_violation: str = ""
    """How the job exceeds its quota in etcd; then only the spec record is in the view."""

    @property
    def is_final(self) -> bool:
        """Whether the rendezvous has ended, or is being ended."""
        return bool(self.quota_violation) or (self.state is not None and self.state.phase.is_final)

    @property
    def active_state(self) -> RendezvousState | None:
        """The rendezvous state if a round is active."""
        return self.state if self.state is not None and self.state.phase is RoundPhase.ACTIVE else None

    @property
    def closed_round(self) -> int:
        """The last round that became active; 0 before the first."""
        if self.active_state is not None:
            return self.active_state.round
        return self.membership.round if self.membership else 0

    @property
    def is_unreadable(self) -> bool:
        """Whether the spec record or the rendezvous state exists and cannot be decoded, so that no plan may be made."""
        return (self.spec is None and self.spec_revision != 0) or (self.state is None and self.state_revision != 0)

    def has_completed(self, round_: int, member: Member) -> bool:
        """Return whether all workers of this member exited with code 0 in this round."""
        return self.completions.get((round_, member.slot)) == member

    def has_left(self, round_: int, member: Member) -> bool:
        """Return whether a member of this round left in order: its tombstone or its node record shows it."""
        tombstone, node = self.tombstones.get(member), self.nodes.get(member)
        has_left = tombstone is not None and tombstone.reason is TombstoneReason.LEFT
        return (has_left or (node is not None and node.record.leaving)) and not self.has_completed(round_, member)

    def is_lost(self, round_: int, member: Member) -> bool:
        """Return whether a member of this round is gone, and has neither left nor completed."""
        if member in self.nodes and member not in self.tombstones:
            return False
        return not self.has_completed(round_, member) and not self.has_left(round_, member)

    def failures_of(self, round_: int) -> list[FailureEntry]:
        """Return the failures of one round, in etcd's order."""
        found = (failure for key, failure in self.failures.items() if key.round == round_)
        return sorted(found, key=lambda f: (f.revision, f.key.local_rank))

    def topology(self, node: NodeEntry) -> str:
        """Return the operator's topology hint for this slot, else the node's own."""
        owner = self.spec.owner(node.member.slot) if self.spec else None
        return owner.topology if owner else node.record.topology

    def owners(self) -> Mapping[int, str]:
        """Return slot → name of the pod that owns it."""
        return self._owners

    @cached_property
    def _owners(self) -> Mapping[int, str]:
        return {slot: owner.pod for slot, owner in self.spec.slots.items()} if self.spec else {}

    def current_nodes(self) -> Mapping[Member, NodeEntry]:
        """Return the live key that counts for each slot.

        With an operator it is the newest key of the pod that the map names, without one the oldest key of the slot.
        """
        return self._current_nodes

    @cached_property
    def _current_nodes(self) -> Mapping[Member, NodeEntry]:
        best: dict[int, NodeEntry] = {}
        for node in sorted(self.nodes.values(), key=lambda n: n.create_revision):
            if self._counts(node, best.get(node.member.slot)):
                best[node.member.slot] = node
        return {node.member: node for node in best.values()}

    def _counts(self, node: NodeEntry, other: NodeEntry | None) -> bool:
        if self.spec is None or self.spec.operator is None:
            return other is None
        owner = self.spec.owner(node.member.slot)
        return owner is not None and owner.pod == node.record.pod

    def completed_slots(self) -> frozenset[int]:
        """Return the slots of the active round whose member has finished; they are kept while that round lasts."""
        return self._completed_slots

    @cached_property
    def _completed_slots(self) -> frozenset[int]:
        state = self.active_state
        return frozenset(m.slot for m in state.members if self.has_completed(state.round, m)) if state else frozenset()

    def live_members(self) -> tuple[Member, ...]:
        """Return the members of the active round that have a live lease or have finished, in rank order."""
        return self._live_members

    @cached_property
    def _live_members(self) -> tuple[Member, ...]:
        state = self.active_state
        if state is None:
            return ()
        return tuple(
            member
            for member in state.members
            if (member in self.nodes and member not in self.tombstones) or self.has_completed(state.round, member)
        )

    def agents(self) -> Mapping[str, Member]:
        """Return pod uid → the newest session of its agent; sessions with a tombstone are left out."""
        return self._agents

    @cached_property
    def _agents(self) -> Mapping[str, Member]:
        sessions = sorted(self.nodes.items(), key=lambda item: item[1].create_revision)
        return {node.record.pod_uid: member for member, node in sessions if member not in self.tombstones}


class StoredKey(Protocol):
    """A key of etcd with its value; `elasticjob_etcd.interface.KeyValue` is one."""

    @property
    def key(self) -> str:
        """The whole key."""

    @property
    def value(self) -> bytes:
        """The record's bytes."""

    @property
    def create_revision(self) -> int:
        """The revision that created the key."""

    @property
    def mod_revision(self) -> int:
        """The revision of the last write."""

    @property
    def lease(self) -> int:
        """The lease, or 0."""


class ViewEntry(NamedTuple):
    """A decoded key, as a view has it."""

    field: str
    key: Any
    """The key in the mapping that the field is; None if the field is the record itself."""
    value: Any
    revision: int


class KeyParser(NamedTuple):
    """How the keys of one kind are decoded, and where a view has them."""

    field: str
    decode: Callable[[bytes], Any]
    item: Callable[[ParsedKey, StoredKey, Any], tuple[Any, Any]]
    """Returns key and value in the field."""


def _record(cls: type[Any]) -> Callable[[bytes], Any]:
    return lambda data: records.decode(cls, data)


def _single(_at: ParsedKey, _kv: StoredKey, record: Any) -> tuple[None, Any]:
    return None, record


def _member(at: ParsedKey) -> Member:
    return Member(at.slot or 0, at.incarnation or "")


def _by_member(at: ParsedKey, _kv: StoredKey, record: Any) -> tuple[Member, Any]:
    return _member(at), record


def _node_item(at: ParsedKey, kv: StoredKey, record: NodeRecord) -> tuple[Member, NodeEntry]:
    member = _member(at)
    return member, NodeEntry(member, record, kv.create_revision, kv.lease)


def _failure_item(at: ParsedKey, kv: StoredKey, record: WorkerFailure) -> tuple[FailureKey, FailureEntry]:
    key = FailureKey(at.round or 0, at.slot or 0, at.local_rank or 0)
    return key, FailureEntry(key, record, kv.create_revision)


def _completion_item(at: ParsedKey, _kv: StoredKey, record: Completion) -> tuple[tuple[int, int], Member]:
    member = Member(at.slot or 0, record.incarnation)
    return (at.round or 0, member.slot), member


def _expected_item(_at: ParsedKey, _kv: StoredKey, record: ExpectedSlots) -> tuple[None, frozenset[int]]:
    return None, frozenset(record.slots)


PARSERS: dict[Kind, KeyParser] = {
    "spec": KeyParser("spec", _record(SpecRecord), _single),
    "expected": KeyParser("expected", _record(ExpectedSlots), _expected_item),
    "world": KeyParser("state", rendezvous_state.decode_state, _single),
    "members": KeyParser("membership", rendezvous_state.decode_membership, _single),
    "terms": KeyParser("runtime_config", decode_runtime_config, _single),
    "link": KeyParser("link_secret", decode_link_secret, _single),
    "node": KeyParser("nodes", _record(NodeRecord), _node_item),
    "held": KeyParser("holdings", decode_holdings, _by_member),
    "report": KeyParser("reports", _record(NodeReport), _by_member),
    "samples": KeyParser("samples", _record(NodeSamples), _by_member),
    "gone": KeyParser("tombstones", _record(Tombstone), _by_member),
    "failure": KeyParser("failures", _record(WorkerFailure), _failure_item),
    "done": KeyParser("completions", _record(Completion), _completion_item),
}
"""The kinds of keys that a view has."""

decode_spec: Callable[[bytes], SpecRecord] = functools.lru_cache(maxsize=4)(_record(SpecRecord))
"""Decode a spec. Cached: a map of 1,000 slots takes 10 ms."""
_AGENT_DECODERS: dict[Kind, Callable[[bytes], Any]] = {
    **{kind: parser.decode for kind, parser in PARSERS.items() if kind not in {"report", "samples"}},
    "spec": decode_spec,
    # Cached: the leader reads all records again after each change of one.
    "node": functools.lru_cache(maxsize=1 << 14)(_record(NodeRecord)),
    "held": functools.lru_cache(maxsize=1 << 12)(decode_holdings),
}

_REVISIONS = {each.name for each in fields(RendezvousView) if each.name.endswith("_revision")}


def entry_of(at: ParsedKey, kv: StoredKey, record: Any) -> ViewEntry:
    """Return the entry of a decoded key; its kind is in `PARSERS`."""
    parser = PARSERS[at.kind]
    key, value = parser.item(at, kv, record)
    return ViewEntry(parser.field, key, value, kv.mod_revision)


def view_of(entries: Iterable[ViewEntry], **other_fields: Any) -> RendezvousView:
    """Return the view of these keys; `other_fields` are those that no key has."""
    mappings = ("nodes", "holdings", "reports", "samples", "tombstones", "failures", "completions")
    found: dict[str, Any] = {name: {} for name in mappings}
    for name, key, value, revision in entries:
        if key is None:
            found |= {name: value, f"{name}_revision": revision}
        else:
            found[name][key] = value
    return RendezvousView(**{**found, **other_fields})


def parse_view(keys: Keys, items: Mapping[str, StoredKey] | Iterable[StoredKey]) -> RendezvousView:
    """Return the view of an agent: of these keys, without reports and samples."""
    entries: list[ViewEntry] = []
    unreadable: list[str] = []
    revisions: dict[str, int] = {}
    created = 0
    for kv in items.values() if isinstance(items, Mapping) else items:
        at = keys.parse(kv.key)
        if at is None or at.kind not in _AGENT_DECODERS:
            continue
        created = kv.create_revision if at.kind == "world" else created
        try:
            entries.append(entry_of(at, kv, _AGENT_DECODERS[at.kind](kv.value)))
            continue
        except RecordError as error:
            unreadable.append(f"{kv.key!r:.200}: {error}")
        except Exception as error:  # noqa: BLE001 -- a fault of ours costs one record, not the agent
            unreadable.append(f"{kv.key!r:.200}: a fault of elasticjob: {error!r:.200}")
        if (name := f"{PARSERS[at.kind].field}_revision") in _REVISIONS:
            revisions[name] = kv.mod_revision
    empty = not (entries or unreadable)
    return view_of(entries, unreadable=tuple(unreadable), empty=empty, state_create_revision=created, **revisions)
