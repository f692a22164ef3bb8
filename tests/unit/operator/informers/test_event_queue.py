"""The events between watches and their reader: the newest of each object, and requests for a list."""

import asyncio
import time
from collections.abc import AsyncGenerator

import pytest

from elasticjob_operator.errors import WatchStale
from elasticjob_operator.informers.event_queue import EventQueue
from elasticjob_operator.model.cluster_interface import Change, ObjectEvent

FAR = 25_000


def event(name: str, change: Change = Change.MODIFIED) -> ObjectEvent:
    return ObjectEvent(change, {"metadata": {"name": name}})


async def test_events_come_in_order() -> None:
    queue = EventQueue()
    for name in ("a", "b", "c"):
        queue.put(event(name))
    assert [await queue.get() for _ in range(3)] == [event("a"), event("b"), event("c")]
    queue.put(event("a"))
    assert await queue.get() == event("a")


async def test_only_the_newest_version_of_an_object_waits() -> None:
    queue = EventQueue()
    queue.put(event("flooded"))
    queue.put(event("other"))
    for _ in range(1000):
        queue.put(event("flooded"))
    queue.put(event("flooded", Change.DELETED))
    assert len(queue._waiting) == 2
    assert [await queue.get() for _ in range(2)] == [event("flooded", Change.DELETED), event("other")]


async def test_each_event_takes_the_same_time_for_a_reader_that_is_far_behind() -> None:
    queue, began = EventQueue(), dict[int, float]()
    for number in range(4 * FAR):
        queue.put(event(str(number)))
    for part in range(4):
        begin_s = time.process_time()
        for _ in range(FAR):
            await queue.get()
        began[part] = time.process_time() - begin_s
    assert began[3] < 3 * began[0] + 0.1


async def test_an_error_is_raised_after_the_events_before_it() -> None:
    queue = EventQueue()
    queue.put(event("a"))
    queue.fail(WatchStale("gone"))
    assert await queue.get() == event("a")
    with pytest.raises(WatchStale):
        await queue.get()


async def test_an_error_ends_the_wait_of_the_reader() -> None:
    queue = EventQueue()
    waiting = asyncio.create_task(queue.get())
    await asyncio.sleep(0)
    queue.fail(WatchStale("gone"))
    with pytest.raises(WatchStale):
        await waiting


async def test_an_error_ends_the_wait_for_a_list_at_once_or_before_it_begins() -> None:
    queue, listed = EventQueue(), asyncio.Event()

    async def items() -> AsyncGenerator[str]:
        yield "a"
        await listed.wait()

    listing = items()
    assert await queue.next_of(listing) == "a"
    waiting = asyncio.create_task(queue.next_of(listing))
    await asyncio.sleep(0)
    queue.fail(WatchStale("gone"))
    with pytest.raises(WatchStale):
        await waiting
    with pytest.raises(WatchStale):
        await queue.next_of(items())


async def test_a_list_without_an_error_is_read_to_its_end() -> None:
    async def items() -> AsyncGenerator[str]:
        yield "a"

    queue, listing = EventQueue(), items()
    assert [await queue.next_of(listing) for _ in range(2)] == ["a", None]


async def test_a_closed_queue_requests_no_list() -> None:
    queue, due, asked = EventQueue(), asyncio.Event(), asyncio.Event()

    def doubt() -> bool:
        asked.set()
        return False

    queue.relist_in(0.0)
    queue.relist_if_in(0.0, doubt)
    queue.close()
    asyncio.get_running_loop().call_later(0.0, due.set)  # after the requests above
    await due.wait()
    queue.put(event("a"))
    assert [await queue.get(), len(queue._waiting), asked.is_set()] == [event("a"), 0, False]


async def test_several_requests_make_one_list() -> None:
    queue = EventQueue()
    for name in ("a", "b"):
        queue.put(event(name))
        queue.relist_in(0.0)
    assert [await queue.get() for _ in range(3)] == [event("a"), event("b"), None]
    queue.put(event("c"))
    assert await queue.get() == event("c")


async def test_the_earliest_of_several_requests_for_a_list_counts() -> None:
    queue = EventQueue()
    queue.relist_in(3600.0)
    queue.relist_in(0.0)
    queue.relist_in(3600.0)
    assert await asyncio.wait_for(queue.get(), 10) is None


async def test_a_list_is_requested_while_the_watch_is_suspect() -> None:
    queue = EventQueue()
    queue.relist_in(3600.0)
    queue.relist_if_in(0.0, lambda: True)
    assert await asyncio.wait_for(queue.get(), 10) is None


async def test_no_list_is_requested_while_the_watch_is_not_suspect() -> None:
    queue, asked = EventQueue(), asyncio.Event()

    def doubt() -> bool:
        asked.set()
        return False

    queue.relist_if_in(0.0, doubt)
    await asked.wait()
    queue.put(event("a"))
    assert await queue.get() == event("a")
