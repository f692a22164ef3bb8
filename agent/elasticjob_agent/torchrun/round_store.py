"""The key-value store that torch's agent needs for one round, over etcd: all nodes read the keys of each node.

Its keys are below the job's prefix, apart from those of the rendezvous, and are deleted with the job. A read that waits
for a key ends when the round is over, because the key may never be set then.
"""

import asyncio
import concurrent.futures
import json
from collections.abc import Callable, Coroutine, Sequence
from datetime import timedelta
from typing import Any, TypeVar

from elasticjob_agent.rendezvous.errors import RendezvousClosedError
from elasticjob_etcd.interface import Etcd, Put, Txn, absent, unchanged
from elasticjob_etcd.mirror import Mirror

_TIMEOUT = timedelta(minutes=5)
_MAX_CONCURRENT = 100
"""Keys that are written in one transaction; etcd accepts 128 operations."""

T = TypeVar("T")
Submit = Callable[[Coroutine[Any, Any, Any]], "concurrent.futures.Future[Any]"]


class RoundEnded(RendezvousClosedError):
    """The round ended while a caller waited for one of its keys."""


class RoundStore:
    """The methods of a store that torch's agent calls; each of them blocks and may be called from any thread."""

    def __init__(self, *, etcd: Etcd, prefix: str, submit: Submit, is_over: Callable[[], bool]) -> None:
        """`submit` runs a coroutine in the loop of `etcd`; when `is_over` changes, the caller must call `wake`."""
        self._etcd = etcd
        self._prefix = f"{prefix.rstrip('/')}/"
        self._submit = submit
        self._is_over = is_over
        self._changed: asyncio.Event | None = None
        self.timeout = _TIMEOUT

    def set_timeout(self, timeout: timedelta) -> None:
        """Set the time that a get or wait may take."""
        self.timeout = timeout

    def set(self, key: str, value: str | bytes) -> None:
        """Write a key."""
        self.multi_set([key], [value])

    def multi_set(self, keys: Sequence[str], values: Sequence[str | bytes]) -> None:
        """Write several keys, up to 100 in one transaction."""
        self._submit(self._put(keys, [v.encode() if isinstance(v, str) else bytes(v) for v in values])).result()

    def get(self, key: str) -> bytes:
        """Wait for a key and return its value; raises TimeoutError, RoundEnded."""
        return self.multi_get([key])[0]

    def multi_get(self, keys: Sequence[str]) -> list[bytes]:
        """Wait for all keys and return their values; raises TimeoutError, RoundEnded."""
        values: list[bytes] = self._submit(self._wait(list(keys), self.timeout.total_seconds())).result()
        return values

    def wait(self, keys: Sequence[str], timeout: timedelta | None = None) -> None:
        """Wait until all keys exist; raises TimeoutError, RoundEnded."""
        self._submit(self._wait(list(keys), (timeout or self.timeout).total_seconds())).result()

    def add(self, key: str, amount: int) -> int:
        """Add to a number, which begins as 0, and return the sum."""
        total: int = self._submit(self._add(key, amount)).result()
        return total

    def wake(self) -> None:
        """Wake the waiting calls, which check again whether the round is over. Call it inside the loop."""
        if self._changed is not None:
            self._changed.set()

    # -- inside the loop -------------------------------------------------------------------------

    async def _put(self, keys: Sequence[str], values: Sequence[bytes]) -> None:
        puts = [Put(self._prefix + key, value) for key, value in zip(keys, values, strict=True)]
        for first in range(0, len(puts), _MAX_CONCURRENT):
            await self._etcd.txn(Txn((), tuple(puts[first : first + _MAX_CONCURRENT])))

    async def _wait(self, keys: list[str], timeout_s: float) -> list[bytes]:
        changed = self._changed = asyncio.Event()
        wanted = [self._prefix + key for key in keys]
        try:
            async with asyncio.timeout(timeout_s), Mirror(self._etcd, self._prefix, on_change=changed.set) as mirror:
                while not all(key in mirror.items for key in wanted):
                    self._require_round(mirror, keys)
                    await changed.wait()
                    changed.clear()
                return [mirror.items[key].value for key in wanted]
        except TimeoutError as error:
            raise TimeoutError(f"{', '.join(keys)} was not set within {timeout_s:g} s") from error

    def _require_round(self, mirror: Mirror, keys: list[str]) -> None:
        if mirror.failure is not None:
            raise mirror.failure
        if self._is_over():
            raise RoundEnded(f"the round is over; {', '.join(keys)} may never be set")

    async def _until(self, is_true: Callable[[], bool], timeout_s: float) -> None:
        changed = self._changed = asyncio.Event()
        async with asyncio.timeout(timeout_s):
            while not is_true():
                if self._is_over():
                    raise RoundEnded("the job continues with another round")
                await changed.wait()
                changed.clear()

    async def _add(self, key: str, amount: int) -> int:
        while True:
            now = await self._etcd.get(self._prefix + key)
            total = amount + (0 if now is None else json.loads(now.value))
            fence = absent(self._prefix + key) if now is None else unchanged(now.key, now.mod_revision)
            put = Put(self._prefix + key, str(total).encode())
            if (await self._etcd.txn(Txn((fence,), (put,)))).succeeded:
                return total
