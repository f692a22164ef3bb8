"""Lists and watches of etcd for a mirror that record the changed keys, so that only the jobs concerned are reconciled.

A mirror reports only that something has changed. Keys beyond a job's quota are counted and not passed to the mirror,
which is in memory. If a job has many long failure records, they are passed on without their output.

A list is read in pages: keys of a page that are filtered out are freed before the next page.
"""

import contextlib
import time
from collections.abc import AsyncGenerator, Iterable, Iterator
from dataclasses import replace
from typing import cast

from elasticjob_etcd.errors import RelistRequired
from elasticjob_etcd.interface import KeyValue, PagedEtcd, Range, WatchBatch, WatchEvent
from elasticjob_etcd.watch import BatchDelay
from elasticjob_operator.informers.batching import WatchBatcher
from elasticjob_operator.informers.etcd_usage import EtcdUsage
from elasticjob_operator.informers.record_validation import reduced_failure
from elasticjob_operator.model import job_key


class FilteredEtcd:
    """Filters lists and watches of `etcd`, and records the keys that have changed."""

    def __init__(self, etcd: PagedEtcd, usage: EtcdUsage | None = None, batcher: WatchBatcher | None = None) -> None:
        self._etcd = etcd
        self._usage = usage or EtcdUsage(time.monotonic)
        self._batcher = batcher or WatchBatcher(time.monotonic)
        self._touched: set[str] = set()
        self._relisted = False
        self._must_list = False

    def drain_touched(self) -> set[str] | None:
        """Return the keys that changed since the last call; None after a new list, when any may have changed."""
        touched, relisted = self._touched, self._relisted
        self._touched, self._relisted = set(), False
        return None if relisted else touched

    async def range(self, prefix: str) -> Range:
        """Return the keys as `Etcd.range` does, without those beyond a quota."""
        self._relisted = True
        self._usage.forget()
        retained: dict[str, KeyValue] = {}
        revision = 0
        async with contextlib.aclosing(self._etcd.pages(prefix)) as pages:
            async for page in pages:
                revision = page.revision
                retained |= {kv.key: self._reduce(kv) for kv in page.kvs if self._usage.account_stored(kv)}
                if expelled := self._usage.drain_over_quota():
                    retained = {key: kv for key, kv in retained.items() if job_key.key_of_etcd_key(key) not in expelled}
        return Range(tuple(retained.values()), revision)

    async def watch(self, prefix: str, *, start_revision: int) -> AsyncGenerator[WatchBatch, None]:
        """Return changes as `Etcd.watch` does, without those beyond a quota; their keys are recorded first."""
        watch = self._etcd.watch(prefix, start_revision=start_revision)
        is_first = True
        pause: BatchDelay | None = None
        async with contextlib.aclosing(cast("AsyncGenerator[WatchBatch, BatchDelay | None]", watch)) as stream:
            while True:
                try:
                    batch = await stream.asend(pause)
                except StopAsyncIteration:
                    return
                if is_first and self._must_list:
                    # A revision that the mirror cannot know makes it list.
                    self._must_list, batch = False, replace(batch, revision=-1)
                is_first = False
                self._touched.update([event.kv.key for event in batch.events])
                yield replace(batch, events=tuple(self._filter(batch.events)))
                pause = self._batcher.batch_delay
                if self._usage.drain_must_list():
                    self._must_list = True
                    raise RelistRequired  # a larger quota admits keys that were filtered out; only a list has them

    def _filter(self, events: Iterable[WatchEvent]) -> Iterator[WatchEvent]:
        for event in events:
            if event.deleted:
                self._usage.account_delete(event.kv.key)
                yield event
            elif self._usage.account_write(event.kv):
                yield replace(event, kv=self._reduce(event.kv))

    def _reduce(self, kv: KeyValue) -> KeyValue:
        return replace(kv, value=reduced_failure(kv.value)) if self._usage.must_reduce(kv) else kv
