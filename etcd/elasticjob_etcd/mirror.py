"""A prefix of etcd in memory, kept up to date by a watch: watch from now on, then list, and apply changes.

A caller that has already read the prefix can seed the mirror with it: `seed`. If it was read after the watch was
established (`wait_watching`), no list is requested.

`items` is always the content of etcd at `revision`, never half of a revision. The mirror waits during an outage, and
lists again after a compaction or a wipe; keys that were deleted in between are then missing. Its owner gets only errors
that cannot heal (`RequestRejected`), and a wipe, after which remembered revisions mean nothing. One task, no polling.

A backup may be restored at a higher revision than etcd had, under the same cluster id. No header shows that, but a list
does: within one store no key is ever older than before. If history is lost up to a list that has none of the known
keys, either all were deleted or an older store was restored. `empty_is_reset` assumes a restore. That is right only
where another component knows better, and deletes rewritten keys again.
"""

import asyncio
import contextlib
import random
from collections.abc import Callable
from types import TracebackType
from typing import Self

from elasticjob_etcd.backoff import Backoff, Random
from elasticjob_etcd.errors import Compacted, RelistRequired, StoreReset, Unavailable
from elasticjob_etcd.interface import KeyValue, Range, WatchableEtcd, WatchBatch

_WATCH_TIMEOUT_S = 1.0
"""A watch is confirmed in one round trip. Without the confirmation there is one more list, and no other loss."""


class Mirror:
    """The keys under `prefix` as of `revision`; use it as an async context manager.

    Entering waits for the first list, however long etcd takes. It does not wait if `initial` is that list, or with
    `seed_later`, which requires a call of `seed`. Until then `items` is empty, and the watch is already established.
    `on_change` is called after every change of `items`, and when the mirror ended by itself (`failure` is set then); it
    must not raise. `store_resets` counts the observed wipes.
    """

    def __init__(
        self,
        etcd: WatchableEtcd,
        prefix: str,
        initial: Range | None = None,
        *,
        seed_later: bool = False,
        empty_is_reset: bool = False,
        on_change: Callable[[], None] | None = None,
        rng: Random = random.random,
    ) -> None:
        self.prefix = prefix
        self.items: dict[str, KeyValue] = {}
        self.revision = 0
        self.store_resets = 0
        self.on_change = on_change
        self._etcd = etcd
        self._backoff = Backoff(rng)
        self._initial = initial
        self._seed_later = seed_later
        self._empty_is_reset = empty_is_reset
        self._first: asyncio.Future[int] | None = None
        """The revision of the seed."""
        self.failure: Exception | None = None
        self._was_reset = False
        """A wipe was observed, and the new store has not been listed yet."""
        self._is_compacted = False
        """Changes since `revision` are compacted, and nothing has been listed since."""
        self._unreported_reset = False
        self._changed = asyncio.Event()
        self._watching = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        """Start, and wait until `items` is a first list."""
        if self._initial is not None:
            self._replace_all(self._initial)
        if self._seed_later:
            self._first = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._follow(), name=f"mirror of {self.prefix}")
        if self._seed_later:
            return self
        try:
            await self._next_change(lambda: self.revision > 0)
        except BaseException:
            await self.close()
            raise
        return self

    async def wait_watching(self) -> None:
        """Wait until etcd has confirmed the watch, for a second at most."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_WATCH_TIMEOUT_S):
                await self._watching.wait()

    def seed(self, first: Range, *, empty_is_reset: bool = False) -> None:
        """Set the first list, once. One that was read after the watch began saves another list request."""
        assert self._first is not None
        self._empty_is_reset = empty_is_reset
        self._replace_all(first)
        self._first.set_result(first.revision)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop."""
        await self.close()

    async def close(self) -> None:
        """Stop the watch; `items` remains as it is. Idempotent."""
        task, self._task = self._task, None  # its exception references the pending call, and so the connection
        if task is not None:
            task.cancel()
            await asyncio.wait({task})

    async def wait_change(self, known_revision: int) -> int:
        """Wait until `revision` is beyond `known_revision`, and return it; several changes may have been one.

        Raise `StoreReset` once after each wipe; `items` is of the new store by then. Raise the error that ended the
        mirror, such as `RequestRejected`, at each call. For one waiter at a time.
        """
        await self._next_change(lambda: self.revision > known_revision or self._unreported_reset)
        if self._unreported_reset:
            self._unreported_reset = False
            message = f"etcd was wiped or restored; {self.prefix} was listed again at revision {self.revision}"
            raise StoreReset(message)
        return self.revision

    async def _next_change(self, has_come: Callable[[], bool]) -> None:
        while not has_come():
            if self.failure is not None:
                raise self.failure
            self._changed.clear()
            await self._changed.wait()

    async def _follow(self) -> None:
        try:
            while True:
                try:
                    await self._watch()
                except Unavailable:
                    await self._backoff.pause()
                except Compacted:
                    self._is_compacted = True
                except RelistRequired:
                    pass
                except StoreReset:
                    self._was_reset = True
        except Exception as error:  # noqa: BLE001  # `wait_change` raises it: the owner does not await this task
            self.failure = error
            self._notify()

    async def _watch(self) -> None:
        """Watch from now on, and list if there may be earlier changes: a watch that begins at an old revision lags."""
        watch = self._etcd.watch(self.prefix, start_revision=0)
        async with contextlib.aclosing(watch):
            begun = await anext(watch)
            self._watching.set()
            if self._was_reset or not await self._check_contiguous(begun.revision):
                listed = await self._etcd.range(self.prefix)
                self._replace_all(listed, after_wipe=self._was_reset or self._is_of_another_store(listed))
                self._was_reset = self._is_compacted = False
            async for batch in watch:
                self._apply(batch)

    async def _check_contiguous(self, begun: int) -> bool:
        """Whether `items` and a watch that began at this revision leave no gap.

        A list that was read after the watch was established may be newer: both overlap then. Any other revision that is
        newer than the watch may be of another store, and a list must decide.
        """
        if self._first is None or self._first.done():
            return self.revision == begun
        return await self._first >= begun

    def _is_of_another_store(self, listed: Range) -> bool:
        """Whether a list cannot follow from `items`, although no header shows it."""
        known = self.items
        if any(kv.key in known and kv.mod_revision < known[kv.key].mod_revision for kv in listed.kvs):
            return True
        return self._empty_is_reset and self._is_compacted and bool(known) and not listed.kvs

    def _apply(self, batch: WatchBatch) -> None:
        if batch.revision <= self.revision:
            return  # a list has overtaken the watch
        for event in batch.events:
            if event.kv.mod_revision <= self.revision:
                continue
            if event.deleted:
                self.items.pop(event.kv.key, None)
            else:
                self.items[event.kv.key] = event.kv
        self.revision = batch.revision
        self._backoff.reset()
        self._notify()

    def _replace_all(self, listed: Range, *, after_wipe: bool = False) -> None:
        self.items = {kv.key: kv for kv in listed.kvs}
        self.revision = listed.revision
        self.store_resets += after_wipe
        self._unreported_reset = self._unreported_reset or after_wipe
        self._backoff.reset()
        self._notify()

    def _notify(self) -> None:
        self._changed.set()
        if self.on_change is not None:
            self.on_change()
