"""The keys of one job, each parsed once when it changes; a `RendezvousView` of them is made for every plan.

A report that only has newer samples is parsed when the next view wants it: most are overtaken by then.

A record that cannot be read, or cannot be true, is logged with its key, named in the view, and otherwise as good as
absent: nothing in etcd may crash the operator.
"""

import heapq
import logging
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, Protocol

from elasticjob_api import records, rendezvous_state
from elasticjob_api.errors import RecordError
from elasticjob_api.keys import SLOT_LIMIT, Keys, Kind, ParsedKey
from elasticjob_api.records import NodeReport, WorkerReport
from elasticjob_api.rendezvous_state import Member
from elasticjob_etcd.interface import KeyValue
from elasticjob_operator.cluster.log_limit import LogRateLimiter, printable
from elasticjob_operator.informers.record_validation import BYTES_LIMIT, require_report, require_size, validate
from elasticjob_operator.informers.report_diff import differs_only_in_samples
from elasticjob_operator.model.compare import fields_except
from elasticjob_operator.model.rendezvous_view import NodeEntry, RendezvousView

log = logging.getLogger(__name__)

_NAMED = 8
"""Keys that cannot be read, of one job, in its status."""

_DECODERS: dict[Kind, Callable[[bytes], Any]] = {
    "spec": lambda data: records.decode(records.SpecRecord, data),
    "expected": lambda data: records.decode(records.ExpectedSlots, data),
    "world": rendezvous_state.decode_state,
    "members": rendezvous_state.decode_membership,
    "node": lambda data: records.decode(records.NodeRecord, data),
    "failure": lambda data: records.decode(records.WorkerFailure, data),
    "done": lambda data: records.decode(records.Completion, data),
    "gone": lambda data: records.decode(records.Tombstone, data),
    "report": lambda data: records.decode(records.NodeReport, data),
}


class ChangeKind(Enum):
    """The weight of a change of a key: how soon its job is looked at."""

    STATE = "state"  # something is other than it was: now
    PROGRESS = "soft"  # only how far the training is, processor, memory and the time: once in a while


class ReportCallback(Protocol):
    """Is called for every report."""

    def __call__(self, *, readable: bool) -> None:
        """It came, and could be read or not."""


def ignore_report(*, readable: bool) -> None:
    """Do nothing."""


@dataclass(slots=True)
class _Item:
    kv: KeyValue
    at: ParsedKey
    record: Any
    """None: `kv` was not read yet, and can be."""
    member: Member
    """Of the keys that one stay of an agent has; for the others without meaning."""

    def read(self) -> Any:
        """The record, read now if it was not."""
        if self.record is None:
            self.record = _DECODERS[self.at.kind](self.kv.value)
        return self.record


class JobStore:
    """All keys below one job's prefix, as of the owner's revision."""

    def __init__(self, keys: Keys, on_report: ReportCallback = ignore_report) -> None:
        self.most_workers = SLOT_LIMIT
        """Of a node: a report with more is not read."""
        self._log_limit = LogRateLimiter(time.monotonic)
        self._keys = keys
        self._job = keys.prefix.split("/")[-2]
        self._on_report = on_report
        self._items: dict[str, _Item] = {}
        self._unreadable: dict[str, str] = {}
        self._undecoded: set[str] = set()

    def put(self, kv: KeyValue) -> ChangeKind:
        """A key has a new value; what it is worth."""
        try:
            return self._put(kv)
        except RecordError as error:
            why = printable(str(error))
            if self._log_limit.allow(kv.key):
                log.warning("ignoring %s: %s", printable(kv.key), why)
            self._reject(kv.key, why)
        except Exception:  # one key that meets a fault of ours costs its own job, never the operator
            if self._log_limit.allow(kv.key):
                log.exception("cannot read %.200r", kv.key)
            self._reject(kv.key, "a fault of the operator, see its log")
        return ChangeKind.STATE

    def _put(self, kv: KeyValue) -> ChangeKind:
        before = self._items.get(kv.key)
        if before is not None and before.kv.mod_revision == kv.mod_revision:
            return ChangeKind.PROGRESS  # it is known, and its value may have been dropped
        if before is not None and before.at.kind == "report":
            return self._put_report(before, kv)
        self._store(kv)
        return ChangeKind.STATE

    def _put_report(self, before: _Item, kv: KeyValue) -> ChangeKind:
        if len(kv.value) <= BYTES_LIMIT and differs_only_in_samples(before.kv.value, kv.value):
            before.kv, before.record = kv, None
            self._on_report(readable=True)
            return ChangeKind.PROGRESS
        said = before.read()
        self._store(kv)
        return _change_kind(said, self._items[kv.key].record)

    def _store(self, kv: KeyValue) -> None:
        self.drop(kv.key)
        self._undecoded.add(kv.key)
        at = self._keys.parse(kv.key)
        if at is None or at.kind not in _DECODERS:
            return
        require_size(kv.value, at.kind)
        if at.kind == "report":
            require_report(kv.value, self.most_workers)
        record = _DECODERS[at.kind](kv.value)
        validate(record, job=self._job)
        if at.kind != "report":
            kv = replace(kv, value=b"")  # only reports are compared as bytes
        self._items[kv.key] = _Item(kv, at, record, Member(at.slot or 0, at.incarnation or ""))
        if at.kind == "report":
            self._on_report(readable=True)

    def _reject(self, key: str, why: str) -> None:
        self.drop(key)
        self._undecoded.add(key)
        self._unreadable[key] = f"{printable(key)}: {why}"
        if key.startswith(self._keys.reports):
            self._on_report(readable=False)

    def compares(self, key: str) -> bool:
        """Whether the bytes of this key are needed when it changes."""
        return key in self._items and self._items[key].at.kind == "report"

    def drop(self, key: str) -> None:
        """A key is gone."""
        for known in (self._items, self._unreadable):
            known.pop(key, None)
        self._undecoded.discard(key)

    @property
    def empty(self) -> bool:
        """There is no key at all."""
        return not self._undecoded

    def view(self, revision: int) -> RendezvousView:
        """What all of it says."""
        spec, spec_revision = self._decode_single(self._keys.spec)
        world_, world_revision = self._decode_single(self._keys.rendezvous_state)
        expected, _ = self._decode_single(self._keys.expected)
        of: defaultdict[Kind, list[_Item]] = defaultdict(list)
        for item in self._items.values():
            of[item.at.kind].append(item)
        return RendezvousView(
            revision=revision,
            spec=spec,
            spec_revision=spec_revision,
            world=world_,
            world_revision=world_revision,
            membership=self._decode_single(self._keys.members)[0],
            expected=frozenset(expected.slots) if expected else frozenset(),
            nodes={i.member: NodeEntry(i.record, i.kv.lease, i.kv.create_revision) for i in of["node"]},
            reports={i.member: i.read() for i in of["report"]},
            failures={_failure_name(i): i.record for i in of["failure"]},
            completions={(i.at.round or 0, i.at.slot or 0): i.record for i in of["done"]},
            tombstones={i.member: i.record for i in of["gone"]},
            unreadable=self._first_unreadable(),
            empty=self.empty,
        )

    def _first_unreadable(self) -> tuple[str, ...]:
        named = [self._unreadable[key] for key in heapq.nsmallest(_NAMED, self._unreadable)]
        more = len(self._unreadable) - len(named)
        return (*named, f"and {more} more") if more else tuple(named)

    def _decode_single(self, key: str) -> tuple[Any, int]:
        """Record and revision; an unreadable one has a revision that no transaction can match by accident."""
        if key in self._unreadable:
            return None, -1
        item = self._items.get(key)
        return (item.record, item.kv.mod_revision) if item else (None, 0)


def _change_kind(before: NodeReport, after: NodeReport) -> ChangeKind:
    if _state(before) != _state(after) or _worker_states_of(before) != _worker_states_of(after):
        return ChangeKind.STATE
    return ChangeKind.PROGRESS


_state = fields_except(NodeReport, "workers", "progress", "time_ns")
_worker_state = fields_except(WorkerReport, "cpu_percent", "memory_bytes")


def _worker_states_of(report: NodeReport) -> list[Any]:
    return [_worker_state(worker) for worker in report.workers]


def _failure_name(item: _Item) -> str:
    return f"{item.at.round}/{item.at.slot or 0:04x}.{item.at.local_rank}"
