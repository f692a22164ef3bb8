"""What the supervisor's tests share: a census around each, a supervisor, and a builder of commands."""

from collections.abc import AsyncIterator, Iterator

import pytest

from elasticjob_agent.supervisor import Supervisor
from testing.processes.census import Census
from tests.integration.supervisor.commands import Builder, Tether


@pytest.fixture
def census() -> Iterator[Census]:
    """Nothing may be left when the test and its supervisor have ended."""
    with Census() as census:
        yield census
        assert census.found() == []


@pytest.fixture
def tethers() -> Iterator[list[Tether]]:
    """The tethers that the test has made, closed in the end."""
    tethers: list[Tether] = []
    yield tethers
    for tether in tethers:
        tether.close()


@pytest.fixture
async def supervisor(census: Census) -> AsyncIterator[Supervisor]:
    supervisor = await Supervisor.create()
    yield supervisor
    await supervisor.close()
    assert census.found() == []


@pytest.fixture
def build(census: Census) -> Builder:
    return Builder(census.token)
