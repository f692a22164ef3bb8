"""An event loop whose clock stands still while anybody works, and jumps to the next timer when nobody does.

So a test of a wait takes no time, and sees to the millisecond when what happened. Only for coroutines that never
wait for a socket or a thread: who waits for nothing that will come is told so.
"""

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class VirtualLoop(asyncio.SelectorEventLoop):
    """A loop that begins at 0 s."""

    def __init__(self) -> None:
        self._now_s = 0.0
        super().__init__(_Jumping(self))

    def time(self) -> float:
        """Seconds since it began."""
        return self._now_s

    def advance(self, by_s: float) -> None:
        """Let so much time go by at once, as work of the processor does."""
        self._now_s += by_s


class _Jumping(selectors.DefaultSelector):
    """Never sleeps: the loop would wait so long for its next timer, so it is then."""

    def __init__(self, loop: VirtualLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        assert timeout is not None, "nothing is left that could happen"
        self._loop.advance(timeout)
        return super().select(0)


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run it in virtual time; fails if it waits for what never comes."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(coroutine)


def sleep_until(when_s: float) -> Coroutine[Any, Any, None]:
    """A moment of the running loop."""
    return asyncio.sleep(when_s - asyncio.get_running_loop().time())
