"""The event bus between watches and subscribers: the newest version of each object, and a list after a gap."""

import asyncio
import time

from elasticjob_operator.informers.event_bus import EventBus
from elasticjob_operator.model.cluster_interface import Change, ObjectEvent, Resource

FAR = 25_000


def event(name: str, change: Change = Change.MODIFIED) -> ObjectEvent:
    return ObjectEvent(change, {"metadata": {"name": name}})


async def test_a_subscriber_gets_changes_in_order() -> None:
    feed = EventBus()
    with feed.subscribe(Resource.POD) as changes:
        for name in ("a", "b", "c"):
            feed.publish(Resource.POD, event(name))
        assert [await changes.get() for _ in range(3)] == [event("a"), event("b"), event("c")]
        feed.publish(Resource.POD, event("a"))
        assert await changes.get() == event("a")


async def test_only_the_newest_version_of_an_object_waits() -> None:
    feed = EventBus()
    with feed.subscribe(Resource.JOB) as changes:
        feed.publish(Resource.JOB, event("flooded"))
        feed.publish(Resource.JOB, event("other"))
        for _ in range(1000):
            feed.publish(Resource.JOB, event("flooded"))
        feed.publish(Resource.JOB, event("flooded", Change.DELETED))
        assert len(changes._waiting) == 2
        assert [await changes.get() for _ in range(2)] == [event("flooded", Change.DELETED), event("other")]


async def test_each_change_takes_the_same_time_for_a_subscriber_that_is_far_behind() -> None:
    feed, began = EventBus(), dict[int, float]()
    with feed.subscribe(Resource.POD) as changes:
        for number in range(4 * FAR):
            feed.publish(Resource.POD, event(str(number)))
        for part in range(4):
            begin_s = time.process_time()
            for _ in range(FAR):
                await changes.get()
            began[part] = time.process_time() - begin_s
    assert began[3] < 3 * began[0] + 0.1


async def test_each_subscriber_gets_every_change() -> None:
    feed = EventBus()
    with feed.subscribe(Resource.POD) as one, feed.subscribe(Resource.POD) as other:
        feed.publish(Resource.POD, event("a"))
        assert await one.get() == await other.get() == event("a")


async def test_a_subscriber_of_one_kind_gets_no_other() -> None:
    feed = EventBus()
    with feed.subscribe(Resource.POD) as pods, feed.subscribe(Resource.JOB):
        feed.publish(Resource.JOB, event("job"))
        feed.publish(Resource.POD, event("pod"))
        assert await pods.get() == event("pod")


async def test_changes_before_the_first_subscription_are_dropped() -> None:
    feed = EventBus()
    feed.publish(Resource.POD, event("early"))
    with feed.subscribe(Resource.POD) as changes:
        feed.publish(Resource.POD, event("late"))
        assert await changes.get() == event("late")


async def test_nothing_is_stored_for_a_closed_subscription() -> None:
    feed = EventBus()
    with feed.subscribe(Resource.POD) as changes:
        changes.relist_in(0.0)
    feed.publish(Resource.POD, event("a"))
    await asyncio.sleep(0)
    assert not changes._waiting


async def test_a_watch_that_began_anew_requests_one_list() -> None:
    feed = EventBus(relist_delay_s=0.0)
    with feed.subscribe(Resource.POD) as changes:
        for name in ("a", "b"):
            feed.publish(Resource.POD, event(name))
            feed.mark_listed(Resource.POD)
        assert [await changes.get() for _ in range(3)] == [event("a"), event("b"), None]
        feed.publish(Resource.POD, event("c"))
        assert await changes.get() == event("c")


async def test_the_earliest_of_several_requests_for_a_list_counts() -> None:
    feed = EventBus()
    with feed.subscribe(Resource.POD) as changes:
        changes.relist_in(3600.0)
        changes.relist_in(0.0)
        changes.relist_in(3600.0)
        assert await asyncio.wait_for(changes.get(), 10) is None


async def test_a_list_is_requested_while_the_watch_is_suspect() -> None:
    feed = EventBus()
    with feed.subscribe(Resource.POD) as changes:
        changes.relist_in(3600.0)
        changes.relist_if_in(0.0, lambda: True)
        assert await asyncio.wait_for(changes.get(), 10) is None


async def test_no_list_is_requested_while_the_watch_is_not_suspect() -> None:
    feed, asked = EventBus(), asyncio.Event()

    def doubt() -> bool:
        asked.set()
        return False

    with feed.subscribe(Resource.POD) as changes:
        changes.relist_if_in(0.0, doubt)
        await asked.wait()
        feed.publish(Resource.POD, event("a"))
        assert await changes.get() == event("a")
