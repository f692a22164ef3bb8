"""Synchronisation through a store: time-outs, exchange, barriers that name missing ranks."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest

from elasticjob_agent.rendezvous.store import InMemoryStore, StoreTimeout
from elasticjob_agent.utils import store as store_util


def by_ranks(count: int, call: Callable[[int], object]) -> list[object]:
    """Return the result or the error of `call(rank)` in `count` threads, in rank order."""
    with ThreadPoolExecutor(count) as pool:
        futures = [pool.submit(call, rank) for rank in range(count)]
        return [future.exception() or future.result() for future in futures]


def test_b_004_42_four_threads_get_the_data_of_all_in_rank_order() -> None:
    store = InMemoryStore()
    got = by_ranks(4, lambda rank: store_util.synchronize(store, b"%d" % rank, rank, 4, "k", timeout=30))
    assert got == [[b"0", b"1", b"2", b"3"]] * 4


def test_b_004_42_four_threads_pass_a_barrier_together() -> None:
    store = InMemoryStore()
    assert by_ranks(4, lambda _: store_util.barrier(store, 4, "b", barrier_timeout=30)) == [None] * 4
    assert store.get("b/num_members") == b"4"


@pytest.mark.parametrize("present", [[0, 2], [1, 2]], ids=["rank 0 knows", "rank 0 itself is missing"])
def test_b_004_42_time_out_of_a_barrier_names_the_missing_ranks(present: list[int]) -> None:
    store = InMemoryStore()

    def come(index: int) -> None:
        store_util.barrier(
            store,
            4,
            "b",
            barrier_timeout=0.05,
            rank=present[index],
            rank_tracing_decoder="r{}".format,
            trace_timeout=1.0 if 0 in present else 0.01,
        )

    missing = "r1, r3" if 0 in present else "r0"
    for error in by_ranks(2, come):
        assert isinstance(error, store_util.BarrierTimeout)
        assert str(error).endswith(f"missing ranks: {missing}")


def test_a_barrier_without_a_rank_raises_the_stores_error() -> None:
    with pytest.raises(StoreTimeout, match=r"waited 0.01 s for 1 keys of a store: b/last_member"):
        store_util.barrier(InMemoryStore(), 2, "b", barrier_timeout=0.01)


def test_b_004_42_time_outs_are_restored_after_errors() -> None:
    store = InMemoryStore(timedelta(seconds=7))
    with pytest.raises(StoreTimeout):
        store_util.synchronize(store, b"", 0, 2, "k", timeout=0.01)
    with pytest.raises(TimeoutError):
        store_util.barrier(store, 2, "b", barrier_timeout=0.01, rank=0, trace_timeout=0.01)
    with pytest.raises(KeyError), store_util.store_timeout(store, 1):
        raise KeyError
    assert store.timeout == timedelta(seconds=7)


def test_rank_0_returns_from_get_all_only_when_the_last_has_read() -> None:
    store = InMemoryStore(timedelta(seconds=0.05))
    store.multi_set(["k0", "k1"], ["a", "b"])
    with pytest.raises(StoreTimeout):
        store_util.get_all(store, 0, "k", 2)
    assert store_util.get_all(store, 1, "k", 2) == [b"a", b"b"]
