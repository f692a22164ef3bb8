"""Synchronisation through a key-value store: temporary time-outs, exchange of data, barriers.

The functions work with any store that has `set`, `get`, `add`, `wait`, `multi_get`, `timeout` and `set_timeout`. Each
store raises its own error at a time-out; it is raised unchanged unless a barrier knows which ranks are missing. Key
names are fixed, because nodes of several versions may meet: `<prefix><rank>`, `<prefix>/num_members`,
`<prefix>/last_member`.
"""

import contextlib
import json
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from typing import Protocol

_MEMBERS = "/num_members"
_LAST_MEMBER = "/last_member"
_TRACE = "/trace"
_MISSING = "/missing_ranks"
_IGNORED = "<val_ignored>"


class KeyValueStore(Protocol):
    """The methods of a store that these functions call."""

    @property
    def timeout(self) -> timedelta:
        """The time that a wait may take."""

    def set_timeout(self, timeout: timedelta) -> None:
        """Set the time that a wait may take."""

    def set(self, key: str, value: str | bytes) -> None:
        """Write a value."""

    def get(self, key: str) -> bytes:
        """Wait for the key and return its value."""

    def add(self, key: str, amount: int) -> int:
        """Add to a counter and return its new value."""

    def wait(self, keys: Sequence[str]) -> None:
        """Wait until all keys exist."""

    def multi_get(self, keys: Sequence[str]) -> list[bytes]:
        """Wait for all keys and return their values."""


class BarrierTimeout(TimeoutError):
    """A rank did not reach a barrier in time; the message names the missing ranks as far as they are known."""


@contextlib.contextmanager
def store_timeout(store: KeyValueStore, timeout: float) -> Iterator[None]:
    """Set the store's time-out to `timeout` seconds inside; afterwards, also after an error, restore it."""
    before = store.timeout
    store.set_timeout(timedelta(seconds=timeout))
    try:
        yield
    finally:
        store.set_timeout(before)


def get_all(store: KeyValueStore, rank: int, prefix: str, world_size: int) -> list[bytes]:
    """Return the data of all ranks in rank order."""
    data = store.multi_get([f"{prefix}{other}" for other in range(world_size)])
    last_key = _arrive(store, world_size, f"{prefix}/finished")
    if rank == 0:  # it may host the store, so it returns only after the last rank has read
        store.wait([last_key])
    return data


def synchronize(  # noqa: PLR0917 - the order of the API
    store: KeyValueStore, data: bytes, rank: int, world_size: int, key_prefix: str, timeout: float = 300
) -> list[bytes]:
    """Write the data of `rank`, and return the data of all ranks in rank order; each wait takes at most `timeout` s."""
    with store_timeout(store, timeout):
        store.set(f"{key_prefix}{rank}", data)
        return get_all(store, rank, key_prefix, world_size)


def barrier(  # noqa: PLR0917 - the order of the API
    store: KeyValueStore,
    world_size: int,
    key_prefix: str,
    barrier_timeout: float = 300,
    rank: int | None = None,
    rank_tracing_decoder: Callable[[int], str] | None = None,
    trace_timeout: float = 10,
) -> None:
    """Wait until `world_size` callers have reached the barrier, at most `barrier_timeout` seconds.

    Args:
        store: the store of all callers.
        world_size: the number of callers.
        key_prefix: the name of this barrier; it can be used once.
        barrier_timeout: seconds.
        rank: the rank of the caller; with it the error of a time-out names the missing ranks.
        rank_tracing_decoder: returns the text for a rank in that message.
        trace_timeout: seconds that the search for missing ranks may take.

    Raises:
        BarrierTimeout: `rank` was given, and missing ranks were found. Otherwise the store's own error is raised.
    """
    with store_timeout(store, barrier_timeout):
        last_key = _arrive(store, world_size, key_prefix)
        try:
            store.wait([last_key])
        except Exception as error:  # each store has its own error; ours names missing ranks, else the store's is raised
            if rank is None:
                raise
            missing = _missing_ranks(store, world_size, key_prefix, rank=rank, trace_timeout=trace_timeout)
            if not missing:
                raise
            named = ", ".join(map(rank_tracing_decoder or str, missing))
            raise BarrierTimeout(
                f"rank {rank} waited {barrier_timeout:g} s at barrier {key_prefix!r} for {world_size} ranks; "
                f"missing ranks: {named}"
            ) from error


def _arrive(store: KeyValueStore, world_size: int, key_prefix: str) -> str:
    """Count this caller. Return the key that exists once all callers are counted."""
    last_key = key_prefix + _LAST_MEMBER
    if store.add(key_prefix + _MEMBERS, 1) == world_size:
        store.set(last_key, _IGNORED)
    return last_key


def _missing_ranks(
    store: KeyValueStore, world_size: int, key_prefix: str, *, rank: int, trace_timeout: float
) -> list[int]:
    """Return the missing ranks. Rank 0 finds and publishes them, so that n nodes make n requests, not n squared."""
    store.set(f"{key_prefix}{rank}{_TRACE}", _IGNORED)
    answer = key_prefix + _MISSING
    if rank != 0:
        with store_timeout(store, 2 * trace_timeout):  # rank 0 may need all of its time before it publishes
            return [int(r) for r in json.loads(store.get(answer))] if _appears(store, answer) else [0]
    with store_timeout(store, trace_timeout):
        late = _missing_keys(store, [f"{key_prefix}{other}{_TRACE}" for other in range(1, world_size)])
    missing = [1 + index for index in late]
    store.set(answer, json.dumps(missing))
    return missing


def _missing_keys(store: KeyValueStore, keys: Sequence[str]) -> list[int]:
    """Return the indices of keys that do not appear in time: one wait for all, then a short wait for each."""
    try:
        store.wait(keys)
    except Exception:  # noqa: BLE001 - each store has its own error; all of them mean that a key is missing
        with store_timeout(store, _POLL_S):
            return [index for index, key in enumerate(keys) if not _appears(store, key)]
    return []


_POLL_S = 0.01
"""Seconds for the wait for one key: stores that round to whole milliseconds must not get 0, which means for ever."""


def _appears(store: KeyValueStore, key: str) -> bool:
    try:
        store.wait([key])
    except Exception:  # noqa: BLE001 - each store has its own error; all of them mean no
        return False
    return True
