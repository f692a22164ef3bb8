"""Fixtures of the supervisor's tests: a census around each, a supervisor, and a builder of commands."""

from collections.abc import AsyncIterator, Iterator

import pytest

from elasticjob_agent.supervisor import Supervisor
from testing.processes.census import Census
from tests.integration.supervisor.commands import Builder, TreePipe


@pytest.fixture
def census() -> Iterator[Census]:
    """Check that nothing is left when the test and its supervisor have ended."""
    with Census() as census:
        yield census
        assert census.found() == []


@pytest.fixture
def tree_pipes() -> Iterator[list[TreePipe]]:
    """Collect the pipes that the test creates, and close them at the end."""
    tree_pipes: list[TreePipe] = []
    yield tree_pipes
    for tree_pipe in tree_pipes:
        tree_pipe.close()


@pytest.fixture
async def supervisor(census: Census) -> AsyncIterator[Supervisor]:
    supervisor = await Supervisor.create()
    yield supervisor
    await supervisor.close()
    assert census.found() == []


@pytest.fixture
def build(census: Census) -> Builder:
    return Builder(census.token)
