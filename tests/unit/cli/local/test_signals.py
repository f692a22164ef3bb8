"""A request to stop during some work."""

import asyncio
from typing import NoReturn

import pytest

from elasticjob_cli.exit_codes import CLOSED_OUTPUT
from elasticjob_cli.local.signals import Interrupted, SignalWaiter


def _never(code: int) -> NoReturn:
    raise AssertionError(code)


@pytest.fixture
async def interrupts() -> SignalWaiter:
    return SignalWaiter(_never)


async def test_work_without_a_stop_request_has_a_result(interrupts: SignalWaiter) -> None:
    assert await interrupts.or_interrupted(asyncio.sleep(0, "done")) == "done"


async def test_an_error_of_the_work_is_raised(interrupts: SignalWaiter) -> None:
    async def fails() -> None:
        raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        await interrupts.or_interrupted(fails())


async def test_a_stop_request_cancels_the_work(interrupts: SignalWaiter) -> None:
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


async def test_after_a_stop_request_no_work_begins(interrupts: SignalWaiter) -> None:
    interrupts.output_closed()
    with pytest.raises(Interrupted):
        await interrupts.or_interrupted(asyncio.Event().wait())


async def test_the_first_reason_remains(interrupts: SignalWaiter) -> None:
    interrupts.output_closed()
    first = interrupts.stop_request.result()
    interrupts.output_closed()
    assert interrupts.stop_request.result() is first
