"""Being asked to stop, while something is awaited."""

import asyncio
from typing import NoReturn

import pytest

from elasticjob_cli.local.signals import CLOSED_OUTPUT, Interrupted, SignalWaiter


def _never(code: int) -> NoReturn:
    raise AssertionError(code)


@pytest.fixture
async def interrupts() -> SignalWaiter:
    return SignalWaiter(_never)


async def test_work_that_nobody_stops_has_a_result(interrupts: SignalWaiter) -> None:
    assert await interrupts.or_interrupted(asyncio.sleep(0, "done")) == "done"


async def test_its_errors_are_its_own(interrupts: SignalWaiter) -> None:
    async def fails() -> None:
        raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        await interrupts.or_interrupted(fails())


async def test_work_is_cancelled_and_cleaned_up_when_asked(interrupts: SignalWaiter) -> None:
    cleaned: list[bool] = []

    async def works() -> None:
        try:
            interrupts.output_closed()
            await asyncio.Event().wait()
        finally:
            cleaned.append(True)

    with pytest.raises(Interrupted) as caught:
        await interrupts.or_interrupted(works())
    assert (cleaned, caught.value.request.code) == ([True], CLOSED_OUTPUT)


async def test_once_asked_nothing_is_begun(interrupts: SignalWaiter) -> None:
    interrupts.output_closed()
    with pytest.raises(Interrupted):
        await interrupts.or_interrupted(asyncio.Event().wait())


async def test_the_first_reason_stays(interrupts: SignalWaiter) -> None:
    interrupts.output_closed()
    first = interrupts.stop_request.result()
    interrupts.output_closed()
    assert interrupts.stop_request.result() is first
