"""The in-memory store: waits with an end, values as bytes, one time-out for each thread."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest

from elasticjob_agent.rendezvous.store import InMemoryStore, StoreTimeout


def test_text_and_bytes_are_returned_as_bytes() -> None:
    store = InMemoryStore()
    store.set("a", "text")
    store.set("b", b"\xff")
    assert store.multi_get(["a", "b"]) == [b"text", b"\xff"]


def test_get_waits_for_the_key() -> None:
    store = InMemoryStore(timedelta(seconds=30))
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(store.get, "k")
        store.set("k", "v")
        assert waiting.result() == b"v"


def test_a_wait_for_a_missing_key_ends_with_an_error_that_names_it() -> None:
    with pytest.raises(StoreTimeout, match="never"):
        InMemoryStore(timedelta(0)).wait(["never"])


def test_counters_of_many_threads_lose_nothing() -> None:
    store = InMemoryStore()
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: store.add("n", 1), range(1000)))
    assert store.add("n", 0) == 1000


def test_multi_set_takes_as_many_values_as_keys() -> None:
    with pytest.raises(ValueError, match="shorter"):
        InMemoryStore().multi_set(["a", "b"], ["1"])


def test_the_timeout_of_one_thread_does_not_change_that_of_another() -> None:
    store = InMemoryStore(timedelta(seconds=5))
    with ThreadPoolExecutor(1) as pool:
        pool.submit(store.set_timeout, timedelta(seconds=1)).result()
        assert pool.submit(lambda: store.timeout).result() == timedelta(seconds=1)
        assert store.timeout == timedelta(seconds=5)


def test_the_creating_thread_sets_the_default_timeout_of_all() -> None:
    store = InMemoryStore()
    store.set_timeout(timedelta(seconds=2))
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(lambda: store.timeout).result() == timedelta(seconds=2)
