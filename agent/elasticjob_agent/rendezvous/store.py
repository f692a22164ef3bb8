"""The key-value store of nodes in a plain rendezvous: its protocol, and a store in memory.

`InMemoryStore` is for one process: several threads, one or many nodes. Each thread has its own time-out, so that one
thread's `store_timeout` never changes another's wait. The thread that created the store sets the default for all.
Values are bytes; text is encoded. A wait never exceeds the time-out and never polls.
"""

import threading
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Protocol

from elasticjob_agent.rendezvous.errors import RendezvousTimeoutError
from elasticjob_agent.utils.store import KeyValueStore

DEFAULT_TIMEOUT = timedelta(seconds=300)


class Store(KeyValueStore, Protocol):
    """The complete protocol of a store."""

    def multi_set(self, keys: Sequence[str], values: Sequence[str | bytes]) -> None:
        """Write several values at once."""


class StoreTimeout(RendezvousTimeoutError, TimeoutError):
    """A key did not appear in time."""


class InMemoryStore:
    """A store for the threads of one process."""

    def __init__(self, timeout: timedelta = DEFAULT_TIMEOUT, *, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock` gives monotonic seconds."""
        self._clock = clock
        self._owner = threading.get_ident()
        self._default = timeout
        self._own = threading.local()
        self._changed = threading.Condition()
        self._values: dict[str, bytes] = {}

    @property
    def timeout(self) -> timedelta:
        """The longest time that a wait of this thread may take."""
        own: timedelta = getattr(self._own, "timeout", self._default)
        return own

    def set_timeout(self, timeout: timedelta) -> None:
        """Set the time-out of this thread; the thread that created the store sets the default for all others."""
        if threading.get_ident() == self._owner:
            self._default = timeout
        else:
            self._own.timeout = timeout

    def set(self, key: str, value: str | bytes) -> None:
        """Write a value."""
        self.multi_set([key], [value])

    def multi_set(self, keys: Sequence[str], values: Sequence[str | bytes]) -> None:
        """Write several values at once; raise ValueError if there are not as many values as keys."""
        with self._changed:
            for key, value in zip(keys, values, strict=True):
                self._values[key] = value.encode() if isinstance(value, str) else bytes(value)
            self._changed.notify_all()

    def get(self, key: str) -> bytes:
        """Wait for the key, and return its value; raise StoreTimeout."""
        return self.multi_get([key])[0]

    def multi_get(self, keys: Sequence[str]) -> list[bytes]:
        """Wait for all keys, and return their values at one moment; raise StoreTimeout."""
        with self._changed:
            self._await(keys, self.timeout)
            return [self._values[key] for key in keys]

    def add(self, key: str, amount: int) -> int:
        """Add to a counter, and return its new value; an absent counter is 0."""
        with self._changed:
            value = int(self._values.get(key, b"0")) + amount
            self._values[key] = str(value).encode()
            self._changed.notify_all()
            return value

    def wait(self, keys: Sequence[str], timeout: timedelta | None = None) -> None:
        """Wait until all keys exist, at most `timeout` or the store's; raise StoreTimeout."""
        with self._changed:
            self._await(keys, self.timeout if timeout is None else timeout)

    def _await(self, keys: Sequence[str], timeout: timedelta) -> None:
        deadline_s = self._clock() + timeout.total_seconds()
        while missing := [key for key in keys if key not in self._values]:
            left_s = deadline_s - self._clock()
            if left_s <= 0:
                shown = ", ".join(missing[:5])
                raise StoreTimeout(f"waited {timeout.total_seconds():g} s for {len(missing)} keys of a store: {shown}")
            self._changed.wait(left_s)
