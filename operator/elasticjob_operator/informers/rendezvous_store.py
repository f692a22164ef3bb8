"""The keys of one job, each decoded once when it changes; every plan gets a `RendezvousView` of them.

A report with nothing but newer samples is decoded for the next view: by then a newer report has replaced most of them.

A record that cannot be decoded, or is invalid, is logged with its key and named in the view. Otherwise it counts as
absent: no content of etcd may crash the operator.
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
from elasticjob_api.keys import SLOT_LIMIT, FailureKey, Keys, Kind, ParsedKey
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
"""Most unreadable keys that a job's status names."""

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
    """The kind of a change of a key; it decides how soon the job is reconciled."""

    STATE = "state"  # any other change: at once
    PROGRESS = "soft"  # only progress, cpu, memory or time: after the progress interval


class ReportCallback(Protocol):
    """A function that is called for every report."""

    def __call__(self, *, readable: bool) -> None:
        """Take note of a report, and whether it could be decoded."""


def ignore_report(*, readable: bool) -> None:
    """Do nothing."""


@dataclass(slots=True)
class _Item:
    kv: KeyValue
    at: ParsedKey
    record: Any
    """The decoded record; None if `kv` is valid and not decoded yet."""
    member: Member
    """The member that a key belongs to; without meaning for keys of the whole job."""

    def read(self) -> Any:
        """Return the record, decoded now if it was not yet."""
        if self.record is None:
            self.record = _DECODERS[self.at.kind](self.kv.value)
        return self.record


class JobStore:
    """All keys below one job's prefix, as of the informer's revision."""

    def __init__(self, keys: Keys, on_report: ReportCallback = ignore_report) -> None:
        self.most_workers = SLOT_LIMIT
        """Most workers of a node; a report with more is rejected."""
        self._log_limit = LogRateLimiter(time.monotonic)
        self._keys = keys
        self._job = keys.prefix.split("/")[-2]
        self._on_report = on_report
        self._items: dict[str, _Item] = {}
        self._unreadable: dict[str, str] = {}
        self._undecoded: set[str] = set()

    def put(self, kv: KeyValue) -> ChangeKind:
        """Store a key's new value; return the kind of the change."""
        try:
            return self._put(kv)
        except RecordError as error:
            reason = printable(str(error))
            if self._log_limit.allow(kv.key):
                log.warning("ignoring %s: %s", printable(kv.key), reason)
            self._reject(kv.key, reason)
        except Exception:  # a bug of the operator that one key triggers affects only that key's job
            if self._log_limit.allow(kv.key):
                log.exception("cannot read %.200r", kv.key)
            self._reject(kv.key, "an error of the operator, see its log")
        return ChangeKind.STATE

    def _put(self, kv: KeyValue) -> ChangeKind:
        before = self._items.get(kv.key)
        if before is not None and before.kv.mod_revision == kv.mod_revision:
            return ChangeKind.PROGRESS  # this version is stored already, and its value may have been dropped
        if before is not None and before.at.kind == "report":
            return self._put_report(before, kv)
        self._store(kv)
        return ChangeKind.STATE

    def _put_report(self, before: _Item, kv: KeyValue) -> ChangeKind:
        if len(kv.value) <= BYTES_LIMIT and differs_only_in_samples(before.kv.value, kv.value):
            before.kv, before.record = kv, None
            self._on_report(readable=True)
            return ChangeKind.PROGRESS
        report = before.read()
        self._store(kv)
        return _change_kind(report, self._items[kv.key].record)

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

    def _reject(self, key: str, reason: str) -> None:
        self.drop(key)
        self._undecoded.add(key)
        self._unreadable[key] = f"{printable(key)}: {reason}"
        if key.startswith(self._keys.reports):
            self._on_report(readable=False)

    def compares(self, key: str) -> bool:
        """Return whether the bytes of this key are needed when it changes."""
        return key in self._items and self._items[key].at.kind == "report"

    def drop(self, key: str) -> None:
        """Remove a deleted key."""
        for known in (self._items, self._unreadable):
            known.pop(key, None)
        self._undecoded.discard(key)

    @property
    def empty(self) -> bool:
        """Whether the job has no key at all."""
        return not self._undecoded

    def view(self, revision: int) -> RendezvousView:
        """Return a view of all records, as of `revision`."""
        spec, spec_revision = self._decode_single(self._keys.spec)
        state, state_revision = self._decode_single(self._keys.rendezvous_state)
        expected, _ = self._decode_single(self._keys.expected)
        by_kind: defaultdict[Kind, list[_Item]] = defaultdict(list)
        for item in self._items.values():
            by_kind[item.at.kind].append(item)
        return RendezvousView(
            revision=revision,
            spec=spec,
            spec_revision=spec_revision,
            world=state,
            world_revision=state_revision,
            membership=self._decode_single(self._keys.members)[0],
            expected=frozenset(expected.slots) if expected else frozenset(),
            nodes={i.member: NodeEntry(i.record, i.kv.lease, i.kv.create_revision) for i in by_kind["node"]},
            reports={i.member: i.read() for i in by_kind["report"]},
            failures={_failure_key(i.at): i.record for i in by_kind["failure"]},
            completions={(i.at.round or 0, i.at.slot or 0): i.record for i in by_kind["done"]},
            tombstones={i.member: i.record for i in by_kind["gone"]},
            unreadable=self._first_unreadable(),
            empty=self.empty,
        )

    def _first_unreadable(self) -> tuple[str, ...]:
        named = [self._unreadable[key] for key in heapq.nsmallest(_NAMED, self._unreadable)]
        more = len(self._unreadable) - len(named)
        return (*named, f"and {more} more") if more else tuple(named)

    def _decode_single(self, key: str) -> tuple[Any, int]:
        """Return a record and its revision; None and 0 without the key."""
        if key in self._unreadable:
            return None, -1  # no transaction can match this revision
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


def _failure_key(at: ParsedKey) -> FailureKey:
    return FailureKey(at.round or 0, at.slot or 0, at.local_rank or 0)
