"""Meeting through a key-value store: time-outs for a while, everybody's data, barriers.

Works with any store that has `set`, `get`, `add`, `wait`, `multi_get`, `timeout` and `set_timeout`; what a
store raises when its time is up differs, and is raised on unchanged where nothing better is known. Key names
are fixed, since nodes of several versions may meet: `<prefix><rank>`, `<prefix>/num_members`,
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
    """What these functions need of a store."""

    @property
    def timeout(self) -> timedelta:
        """How long a wait may take."""

    def set_timeout(self, timeout: timedelta) -> None:
        """Change it."""

    def set(self, key: str, value: str | bytes) -> None:
        """Write a value."""

    def get(self, key: str) -> bytes:
        """Wait for the key, and read it."""

    def add(self, key: str, amount: int) -> int:
        """Add to a counter; its new value."""

    def wait(self, keys: Sequence[str]) -> None:
        """Wait until all keys exist."""

    def multi_get(self, keys: Sequence[str]) -> list[bytes]:
        """Wait for all keys, and read them."""


class BarrierTimeout(TimeoutError):
    """Somebody did not come to a barrier in time; the message says who, as far as it is known."""


@contextlib.contextmanager
def store_timeout(store: KeyValueStore, timeout: float) -> Iterator[None]:
    """The store's time-out is `timeout` seconds inside, and afterwards what it was, also after an error."""
    before = store.timeout
    store.set_timeout(timedelta(seconds=timeout))
    try:
        yield
    finally:
        store.set_timeout(before)


def get_all(store: KeyValueStore, rank: int, prefix: str, world_size: int) -> list[bytes]:
    """Everybody's data in rank order; rank 0, which may host the store, returns when the last has read."""
    data = store.multi_get([f"{prefix}{other}" for other in range(world_size)])
    last_key = _arrive(store, world_size, f"{prefix}/finished")
    if rank == 0:
        store.wait([last_key])
    return data


def synchronize(  # noqa: PLR0917 - the order of the API
    store: KeyValueStore, data: bytes, rank: int, world_size: int, key_prefix: str, timeout: float = 300
) -> list[bytes]:
    """Give one's own data, get everybody's in rank order; at most `timeout` seconds for each wait."""
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
    """Wait until `world_size` callers are here, at most `barrier_timeout` seconds.

    Args:
        store: where they meet.
        world_size: how many there are.
        key_prefix: names this barrier; used once.
        barrier_timeout: seconds.
        rank: who calls; with it a time-out names those who are missing.
        rank_tracing_decoder: a rank in words, for that message.
        trace_timeout: seconds that finding out who is missing may take.

    Raises:
        BarrierTimeout: with `rank`, when the missing ones could be told; else whatever the store raises.
    """
    with store_timeout(store, barrier_timeout):
        last_key = _arrive(store, world_size, key_prefix)
        try:
            store.wait([last_key])
        except Exception as error:  # each store has its own error; who is missing is told in ours, or theirs goes on
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
    """Count oneself; the key that exists once all have."""
    last_key = key_prefix + _LAST_MEMBER
    if store.add(key_prefix + _MEMBERS, 1) == world_size:
        store.set(last_key, _IGNORED)
    return last_key


def _missing_ranks(
    store: KeyValueStore, world_size: int, key_prefix: str, *, rank: int, trace_timeout: float
) -> list[int]:
    """Who did not come; rank 0 finds out and tells the others, so that n nodes ask n questions, not n squared."""
    store.set(f"{key_prefix}{rank}{_TRACE}", _IGNORED)
    answer = key_prefix + _MISSING
    if rank != 0:
        with store_timeout(store, 2 * trace_timeout):  # rank 0 may need all of its time before it answers
            return [int(r) for r in json.loads(store.get(answer))] if _appears(store, answer) else [0]
    with store_timeout(store, trace_timeout):
        late = _is_missing(store, [f"{key_prefix}{other}{_TRACE}" for other in range(1, world_size)])
    missing = [1 + index for index in late]
    store.set(answer, json.dumps(missing))
    return missing


def _is_missing(store: KeyValueStore, keys: Sequence[str]) -> list[int]:
    """Indices of those keys that do not appear in time: one wait for all, then a look at each."""
    try:
        store.wait(keys)
    except Exception:  # noqa: BLE001 - which keys are missing is what is asked; each store has its own error
        with store_timeout(store, _POLL_S):
            return [index for index, key in enumerate(keys) if not _appears(store, key)]
    return []


_POLL_S = 0.01
"""Seconds for a look: the least that stores with whole milliseconds do not take for "for ever"."""


def _appears(store: KeyValueStore, key: str) -> bool:
    try:
        store.wait([key])
    except Exception:  # noqa: BLE001 - the answer is no; each store has its own error
        return False
    return True
