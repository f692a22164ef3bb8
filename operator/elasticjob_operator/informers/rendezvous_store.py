"""The keys of one job, each decoded once when it changes; every plan gets a `RendezvousView` of them.

A record that cannot be decoded, or is invalid, is logged with its key and named in the view. Otherwise it counts as
absent: no content of etcd may crash the operator.
"""

import heapq
import logging
import time
from dataclasses import replace
from enum import Enum
from typing import Any, NamedTuple, Protocol

from elasticjob_api.errors import RecordError
from elasticjob_api.keys import SLOT_LIMIT, Keys, Kind, ParsedKey
from elasticjob_api.records import split_samples
from elasticjob_api.rendezvous_view import PARSERS, RendezvousView, ViewEntry, entry_of, view_of
from elasticjob_etcd.interface import KeyValue
from elasticjob_operator.cluster.log_limit import LogRateLimiter, printable
from elasticjob_operator.informers.record_validation import require_report, require_size, validate

log = logging.getLogger(__name__)

_NAMED = 8
"""Most unreadable keys that a job's status names."""

_KINDS: frozenset[Kind] = frozenset(PARSERS) - {"terms", "link", "held"}
"""The kinds of keys that the operator reads."""
_OF_REPORTER: frozenset[Kind] = frozenset({"report", "samples"})
"""The kinds of keys that an agent writes for display only."""


class ChangeKind(Enum):
    """The kind of a change; it follows from the key, and decides how soon the job is reconciled."""

    STATE = "state"  # any other key: at once
    PROGRESS = "progress"  # samples: after the progress interval


class ReportCallback(Protocol):
    """A function that is called for each write of samples, alone or with a report, and for each unreadable key."""

    def __call__(self, *, readable: bool) -> None:
        """Count a report; `readable` is whether it could be decoded."""


def ignore_report(*, readable: bool) -> None:
    """Do nothing."""


class _Item(NamedTuple):
    kind: Kind
    revision: int
    entries: tuple[ViewEntry, ...]
    """One; for the report of an earlier agent also that of its samples."""


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
        self._left: dict[int, ViewEntry] = {}
        """The last samples of the agent that left each slot, if it persists steps: no later ones may come."""

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
        if before is not None and before.revision == kv.mod_revision:
            return ChangeKind.PROGRESS  # this version is stored already, and its value may have been dropped
        self._store(kv)
        return _change_kind(before, self._items.get(kv.key))

    def _store(self, kv: KeyValue) -> None:
        self.drop(kv.key)
        self._undecoded.add(kv.key)
        at = self._keys.parse(kv.key)
        if at is None or at.kind not in _KINDS:
            return
        require_size(kv.value, at.kind)
        if at.kind in _OF_REPORTER:
            require_report(kv.value, self.most_workers)
        record = PARSERS[at.kind].decode(kv.value)
        validate(record, job=self._job, workers=self.most_workers)
        entries = _entries(at, kv, record)
        self._items[kv.key] = _Item(at.kind, kv.mod_revision, entries)
        # An agent writes samples with each report, and an earlier agent within it: a change is counted once.
        if at.kind == "samples" or len(entries) > 1:
            self._on_report(readable=True)

    def _reject(self, key: str, reason: str) -> None:
        self.drop(key)
        self._undecoded.add(key)
        self._unreadable[key] = f"{printable(key)}: {reason}"
        if key.startswith(self._keys.reports):
            self._on_report(readable=False)

    def delete(self, key: str) -> None:
        """Remove a deleted key; remember what its agent has on disk until another one leaves the slot."""
        item = self._items.get(key)
        if item is not None and item.kind == "samples" and _on_disk(item) != (None, ""):
            self._left[item.entries[0].key.slot] = item.entries[0]
        self.drop(key)

    def drop(self, key: str) -> None:
        """Remove a key."""
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
            "state_revision": self._keys.rendezvous_state,
            "membership_revision": self._keys.members,
            "expected_revision": self._keys.expected,
        }
        return view_of(
            (*self._left.values(), *(entry for item in self._items.values() for entry in item.entries)),
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


def _entries(at: ParsedKey, kv: KeyValue, record: Any) -> tuple[ViewEntry, ...]:
    if at.kind != "report":
        return (entry_of(at, kv, record),)
    report, samples = split_samples(record)
    entry = entry_of(at, kv, report)
    return (entry,) if samples is None else (entry, entry_of(replace(at, kind="samples"), kv, samples))


def _change_kind(before: _Item | None, after: _Item | None) -> ChangeKind:
    if after is not None and after.kind == "samples":
        # The last samples of an agent have what it has written to disk. They go soon after, with its session.
        return ChangeKind.PROGRESS if _on_disk(before) == _on_disk(after) else ChangeKind.STATE
    # An earlier agent writes its report again for new samples; an agent of today writes the same report once.
    if before is not None and after is not None and after.kind == "report" and _value(before) == _value(after):
        return ChangeKind.PROGRESS
    return ChangeKind.STATE


def _on_disk(item: _Item | None) -> Any:
    """Return the persisted step in samples, and why there is no newer one."""
    keep = None if item is None else _value(item).keep
    return (None, "") if keep is None else (keep.persisted_step, keep.persist_error)


def _value(item: _Item) -> Any:
    return item.entries[0].value
