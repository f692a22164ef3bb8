"""The operator's life in kopf: its start, its own end, and signals. No request is sent before the start has ended."""

import asyncio
import contextlib
import os
import signal
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import pytest

from elasticjob_operator.cluster.connection import Credentials
from elasticjob_operator.errors import CredentialsError
from elasticjob_operator.handlers import OperatorTask, run_with_kopf

Work = Coroutine[Any, Any, None]


async def credentials() -> Credentials:
    return Credentials("http://127.0.0.1:1", None, False, None, None, None)


class Life:
    """An operator that records what happens to it."""

    def __init__(self, prepare: Callable[[], Awaitable[Work]]) -> None:
        self.events: list[str] = []
        self._prepare = prepare
        self.task = OperatorTask(self._open, credentials)

    async def _open(self, _task: OperatorTask, opened: contextlib.AsyncExitStack) -> Work:
        opened.callback(self.events.append, "closed")
        return self._record(await self._prepare())

    async def _record(self, work: Work) -> None:
        try:
            await work
        finally:
            self.events.append("ended")


async def forever() -> None:
    await asyncio.Event().wait()


async def prepared() -> Work:
    return forever()


async def refused() -> Work:
    raise CredentialsError("the secret has no authority")


async def interrupted() -> Work:
    asyncio.get_running_loop().call_soon(os.kill, os.getpid(), signal.SIGTERM)  # kopf sets its handlers before that
    await forever()
    return forever()


async def test_resources_are_closed_after_the_task() -> None:
    life = Life(prepared)
    await life.task.start()
    await asyncio.sleep(0)
    assert life.task.is_alive
    await life.task.end()
    assert (life.events, life.task.is_alive, life.task.failure) == (["ended", "closed"], False, None)


async def test_the_end_of_the_task_stops_kopf_and_its_error_is_kept() -> None:
    async def fails() -> Work:
        async def work() -> None:
            raise CredentialsError("lost")

        return work()

    life = Life(fails)
    await life.task.start()
    await life.task.stop.wait()
    await life.task.end()
    assert str(life.task.failure) == "lost"


async def test_an_error_at_the_start_ends_kopf_and_is_raised(caplog: pytest.LogCaptureFixture) -> None:
    life = Life(refused)
    with pytest.raises(CredentialsError, match="the secret has no authority"):
        await run_with_kopf(life.task, ())
    assert life.events == ["closed"]
    assert not [record for record in caplog.records if record.exc_info], "main logs the error once"


async def test_a_signal_at_the_start_is_no_error() -> None:
    life = Life(interrupted)
    async with asyncio.timeout(20):
        await run_with_kopf(life.task, ())
    assert (life.events, life.task.failure) == (["closed"], None)
