"""Permits shared between groups: no group holds all of them, and none waits long for another."""

import asyncio
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from elasticjob_operator.cluster.fair_semaphore import FairSemaphore

MOST = 3


class Crowd:
    """Tasks of several groups at one semaphore; each holds its permit until it is released."""

    def __init__(self, permits: int, most_each: int) -> None:
        self.semaphore = FairSemaphore(permits, max_per_group=most_each)
        self.inside: list[tuple[str, asyncio.Event]] = []
        self.tasks: list[asyncio.Task[None]] = []

    async def come(self, group: str, count: int = 1) -> None:
        self.tasks += [asyncio.create_task(self._hold(group)) for _ in range(count)]
        await rest()

    async def _hold(self, group: str) -> None:
        async with self.semaphore.slot(group):
            mine = (group, asyncio.Event())
            self.inside.append(mine)
            try:
                await mine[1].wait()
            finally:
                self.inside.remove(mine)

    async def leave(self, index: int = 0) -> None:
        self.inside[index][1].set()
        await rest()

    def held(self) -> "Counter[str]":
        return Counter(group for group, _ in self.inside)

    async def end(self) -> None:
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)


async def rest() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def test_one_group_never_holds_all_permits() -> None:
    crowd = Crowd(4, most_each=3)
    await crowd.come("a", 9)
    assert crowd.held() == {"a": 3}
    await crowd.come("b", 2)
    assert crowd.held() == {"a": 3, "b": 1}
    await crowd.end()


async def test_a_free_permit_goes_to_the_group_that_holds_the_fewest() -> None:
    crowd = Crowd(4, most_each=3)
    await crowd.come("a", 9)
    await crowd.come("b", 9)
    await crowd.come("c")
    await crowd.leave()
    assert crowd.held() == {"a": 2, "b": 1, "c": 1}
    await crowd.leave([group for group, _ in crowd.inside].index("b"))
    assert crowd.held() == {"a": 2, "b": 1, "c": 1}
    await crowd.end()


async def test_a_task_that_is_cancelled_while_waiting_takes_no_permit() -> None:
    crowd = Crowd(1, most_each=1)
    await crowd.come("a", 3)
    for task in crowd.tasks[1:]:
        task.cancel()
    await crowd.leave()
    await crowd.come("a")
    assert crowd.held() == {"a": 1}
    await crowd.end()


async def test_a_permit_granted_to_a_cancelled_task_is_free_again() -> None:
    crowd = Crowd(1, most_each=1)
    async with crowd.semaphore.slot("a"):
        await crowd.come("a")
    crowd.tasks[0].cancel()  # the permit is granted, and the task has not run since
    await rest()
    await crowd.come("b")
    assert crowd.held() == {"b": 1}
    await crowd.end()


STEPS = st.lists(st.tuples(st.sampled_from(["come", "leave", "cancel"]), st.integers(0, 8), st.sampled_from("abc")))


@given(STEPS)
def test_no_permit_is_lost_or_granted_twice(steps: list[tuple[str, int, str]]) -> None:
    async def history() -> None:
        crowd = Crowd(4, most_each=MOST)
        for what, number, group in steps:
            if what == "come":
                await crowd.come(group)
            elif what == "leave" and crowd.inside:
                await crowd.leave(number % len(crowd.inside))
            elif what == "cancel" and crowd.tasks:
                crowd.tasks[number % len(crowd.tasks)].cancel()
                await rest()
            held = crowd.held()
            assert held.total() <= 4
            assert max(held.values(), default=0) <= MOST
        await crowd.end()
        await crowd.come("a", 9)
        await crowd.come("b", 9)
        assert crowd.held().total() == 4
        await crowd.end()

    asyncio.run(history())
