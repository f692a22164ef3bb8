"""All keys of a job below `P/c/` at one revision, decoded.

A record that cannot be read is left out and named in `unreadable`. It may cost its writer the membership, but never
ends its reader. Nothing here decides anything.
"""

import functools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from elasticjob_api import records, rendezvous_state
from elasticjob_api.errors import RecordError
from elasticjob_api.keys import FailureKey, Keys, ParsedKey
from elasticjob_api.link_secret import decode_link_secret
from elasticjob_api.records import Completion, ExpectedSlots, NodeRecord, SpecRecord, Tombstone, WorkerFailure
from elasticjob_api.rendezvous_state import Member, Membership, RendezvousState
from elasticjob_api.runtime_config import RuntimeConfig, decode_runtime_config
from elasticjob_etcd.interface import KeyValue

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class NodeEntry:
    """A node key that exists: the session of one agent whose lease is alive."""

    member: Member
    record: NodeRecord
    create_revision: int


@dataclass(frozen=True, slots=True)
class FailureEntry:
    """A failure record, and the revision that orders it."""

    key: FailureKey
    failure: WorkerFailure
    revision: int


@dataclass(slots=True)
class RendezvousView:
    """One job at one revision; a revision is 0 for a key that does not exist, but not for an unreadable one."""

    spec: SpecRecord | None = None
    spec_revision: int = 0
    world: RendezvousState | None = None
    world_revision: int = 0
    membership: Membership | None = None
    membership_revision: int = 0
    expected: ExpectedSlots = field(default_factory=ExpectedSlots)
    expected_revision: int = 0
    runtime_config: RuntimeConfig | None = None
    runtime_config_revision: int = 0
    link_secret: bytes | None = None
    link_secret_revision: int = 0
    nodes: dict[Member, NodeEntry] = field(default_factory=dict)
    tombstones: dict[Member, Tombstone] = field(default_factory=dict)
    failures: list[FailureEntry] = field(default_factory=list)
    completions: set[tuple[int, Member]] = field(default_factory=set)
    unreadable: list[str] = field(default_factory=list)

    def failures_of(self, round_: int) -> list[FailureEntry]:
        """Return the failures of one round, in etcd's order."""
        return sorted((f for f in self.failures if f.key.round == round_), key=lambda f: (f.revision, f.key.local_rank))

    def has_completed(self, member: Member) -> bool:
        """Whether all workers of the member exited with code 0 in the last active round."""
        return self.membership is not None and (self.membership.round, member) in self.completions

    def current_nodes(self) -> dict[Member, NodeEntry]:
        """Return the live key that counts for each slot.

        With an operator it is the newest key of the pod that the map names, without one the oldest key of the slot.
        """
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

    def topology(self, node: NodeEntry) -> str:
        """Return the operator's topology hint for this slot, else the node's own."""
        owner = self.spec.owner(node.member.slot) if self.spec else None
        return owner.topology if owner else node.record.topology


def parse_view(keys: Keys, items: Mapping[str, KeyValue] | Iterable[KeyValue]) -> RendezvousView:
    """Return the decoded keys of one mirror."""
    view = RendezvousView()
    for kv in items.values() if isinstance(items, Mapping) else items:
        try:
            _put(view, keys, kv)
        except RecordError as error:
            view.unreadable.append(f"{kv.key!r:.200}: {error}")
        except Exception as error:  # noqa: BLE001 -- a fault of ours costs one record, not the agent
            view.unreadable.append(f"{kv.key!r:.200}: a fault of elasticjob: {error!r:.200}")
    return view


def _put(view: RendezvousView, keys: Keys, kv: KeyValue) -> None:
    if (parsed := keys.parse(kv.key)) is not None:
        _READERS[parsed.kind](view, parsed, kv)


def _single(name: str, decode: Callable[[bytes], Any]) -> Callable[[RendezvousView, ParsedKey, KeyValue], None]:
    def put(view: RendezvousView, _parsed: ParsedKey, kv: KeyValue) -> None:
        setattr(view, f"{name}_revision", kv.mod_revision)  # also for an unreadable record: it exists
        setattr(view, name, decode(kv.value))

    return put


def _record(cls: type[T]) -> Callable[[bytes], T]:
    return lambda data: records.decode(cls, data)


def _member(parsed: ParsedKey) -> Member:
    return Member(parsed.slot or 0, parsed.incarnation or "")


def _put_node(view: RendezvousView, parsed: ParsedKey, kv: KeyValue) -> None:
    member = _member(parsed)
    view.nodes[member] = NodeEntry(member, _node(kv.value), kv.create_revision)


@functools.lru_cache(maxsize=1 << 14)
def _node(data: bytes) -> NodeRecord:
    """Decode a node record. Cached: the leader reads all records again after each change of one."""
    return records.decode(NodeRecord, data)


@functools.lru_cache(maxsize=4)
def decode_slots(data: bytes) -> SpecRecord:
    """Decode a spec. Cached: a map of 1,000 slots takes 10 ms."""
    return records.decode(SpecRecord, data)


def _put_tombstone(view: RendezvousView, parsed: ParsedKey, kv: KeyValue) -> None:
    view.tombstones[_member(parsed)] = records.decode(Tombstone, kv.value)


def _put_failure(view: RendezvousView, parsed: ParsedKey, kv: KeyValue) -> None:
    failure = records.decode(WorkerFailure, kv.value)
    key = FailureKey(parsed.round or 0, parsed.slot or 0, parsed.local_rank or 0)
    view.failures.append(FailureEntry(key, failure, kv.create_revision))


def _put_completion(view: RendezvousView, parsed: ParsedKey, kv: KeyValue) -> None:
    done = records.decode(Completion, kv.value)
    view.completions.add((parsed.round or 0, Member(parsed.slot or 0, done.incarnation)))


def _ignore(_view: RendezvousView, _parsed: ParsedKey, _kv: KeyValue) -> None:
    """Ignore a key that no decision needs."""


_READERS: dict[str, Callable[[RendezvousView, ParsedKey, KeyValue], None]] = {
    "spec": _single("spec", decode_slots),
    "expected": _single("expected", _record(ExpectedSlots)),
    "terms": _single("runtime_config", decode_runtime_config),
    "link": _single("link_secret", decode_link_secret),
    "world": _single("world", rendezvous_state.decode_state),
    "members": _single("membership", rendezvous_state.decode_membership),
    "node": _put_node,
    "gone": _put_tombstone,
    "failure": _put_failure,
    "done": _put_completion,
    "closer": _ignore,
    "report": _ignore,
}
