"""The keys of one job, each decoded once when it changes; every plan gets a `RendezvousView` of them.

A report with nothing but newer samples is decoded for the next view: by then a newer report has replaced most of them.

A record that cannot be decoded, or is invalid, is logged with its key and named in the view. Otherwise it counts as
absent: no content of etcd may crash the operator.
"""

import heapq
import logging
import time
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, Protocol

from elasticjob_api.errors import RecordError
from elasticjob_api.keys import SLOT_LIMIT, Keys, Kind
from elasticjob_api.records import NodeReport, WorkerReport
from elasticjob_api.rendezvous_view import PARSERS, RendezvousView, ViewEntry, entry_of, view_of
from elasticjob_etcd.interface import KeyValue
from elasticjob_operator.cluster.log_limit import LogRateLimiter, printable
from elasticjob_operator.informers.record_validation import BYTES_LIMIT, require_report, require_size, validate
from elasticjob_operator.informers.report_diff import differs_only_in_samples
from elasticjob_operator.model.compare import fields_except

log = logging.getLogger(__name__)

_NAMED = 8
"""Most unreadable keys that a job's status names."""

_KINDS: frozenset[Kind] = frozenset(PARSERS) - {"terms", "link"}
"""The kinds of keys that the operator reads."""


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
    kind: Kind
    entry: ViewEntry
    is_stale: bool = False
    """Whether `kv` is valid and newer than `entry`, and not decoded yet; only a report can be."""

    def read(self) -> ViewEntry:
        """Return the entry, decoded now if it was not yet."""
        if self.is_stale:
            self.entry = self.entry._replace(value=PARSERS[self.kind].decode(self.kv.value))
            self.is_stale = False
        return self.entry


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
        if before is not None and before.kind == "report":
            return self._put_report(before, kv)
        self._store(kv)
        return ChangeKind.STATE

    def _put_report(self, before: _Item, kv: KeyValue) -> ChangeKind:
        if len(kv.value) <= BYTES_LIMIT and differs_only_in_samples(before.kv.value, kv.value):
            before.kv, before.is_stale = kv, True
            self._on_report(readable=True)
            return ChangeKind.PROGRESS
        report = before.read().value
        self._store(kv)
        return _change_kind(report, self._items[kv.key].entry.value)

    def _store(self, kv: KeyValue) -> None:
        self.drop(kv.key)
        self._undecoded.add(kv.key)
        at = self._keys.parse(kv.key)
        if at is None or at.kind not in _KINDS:
            return
        require_size(kv.value, at.kind)
        if at.kind == "report":
            require_report(kv.value, self.most_workers)
        record = PARSERS[at.kind].decode(kv.value)
        validate(record, job=self._job)
        entry = entry_of(at, kv, record)
        if at.kind != "report":
            kv = replace(kv, value=b"")  # only reports are compared as bytes
        self._items[kv.key] = _Item(kv, at.kind, entry)
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
        return key in self._items and self._items[key].kind == "report"

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
        singles = {
            "spec_revision": self._keys.spec,
            "world_revision": self._keys.rendezvous_state,
            "membership_revision": self._keys.members,
            "expected_revision": self._keys.expected,
        }
        return view_of(
            (item.read() for item in self._items.values()),
            revision=revision,
            unreadable=self._first_unreadable(),
            empty=self.empty,
            # No transaction can match this revision.
            **{name: -1 for name, key in singles.items() if key in self._unreadable},
        )

    def _first_unreadable(self) -> tuple[str, ...]:
        named = [self._unreadable[key] for key in heapq.nsmallest(_NAMED, self._unreadable)]
        more = len(self._unreadable) - len(named)
        return (*named, f"and {more} more") if more else tuple(named)


def _change_kind(before: NodeReport, after: NodeReport) -> ChangeKind:
    if _state(before) != _state(after) or _worker_states_of(before) != _worker_states_of(after):
        return ChangeKind.STATE
    return ChangeKind.PROGRESS


_state = fields_except(NodeReport, "workers", "progress", "time_ns")
_worker_state = fields_except(WorkerReport, "cpu_percent", "memory_bytes")


def _worker_states_of(report: NodeReport) -> list[Any]:
    return [_worker_state(worker) for worker in report.workers]
