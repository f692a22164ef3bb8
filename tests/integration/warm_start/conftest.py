"""Fixtures of the warm start's tests: a census around each, a supervisor, and nodes."""

import logging
import shutil
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from elasticjob_agent.supervisor import Supervisor
from elasticjob_agent.warm_start import injection
from testing.processes.census import MARKER, Census
from tests.integration.warm_start.warm_node import WarmNode, clean_environment

MakeNode = Callable[..., WarmNode]


@pytest.fixture
def census() -> Iterator[Census]:
    """Check that nothing is left when the test and its supervisor have ended."""
    with Census() as census:
        yield census
        assert census.found() == []


@pytest.fixture
async def supervisor(census: Census) -> AsyncIterator[Supervisor]:
    supervisor = await Supervisor.create()
    yield supervisor
    await supervisor.close()
    assert census.found() == []


@pytest.fixture
async def make_node(supervisor: Supervisor, census: Census, tmp_path: Path) -> AsyncIterator[MakeNode]:
    """Return a function that makes a node; its arguments are those of `WarmNode`."""
    nodes: list[WarmNode] = []

    def make(**options: object) -> WarmNode:
        folder = tmp_path / f"node-{len(nodes)}"
        folder.mkdir()
        nodes.append(WarmNode(supervisor, folder, clean_environment({MARKER: census.token}), **options))  # type: ignore[arg-type]
        return nodes[-1]

    yield make
    for node in nodes:
        await node.stop()
        await node.starter.close()


@pytest.fixture
def node(make_node: MakeNode) -> WarmNode:
    return make_node()


@pytest.fixture
def sentences(caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    """Return a function that returns the sentences logged about cold starts."""
    caplog.set_level(logging.INFO, logger="elasticjob_agent")
    return lambda: [record.getMessage() for record in caplog.records if record.getMessage().startswith("not ")]


@pytest.fixture
def site_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a copy of the folder that the agent puts in front of PYTHONPATH, for tests that remove its files."""
    package = tmp_path / "warm_start"
    shutil.copytree(injection._SITE_FOLDER.parent, package)
    monkeypatch.setattr(injection, "_SITE_FOLDER", package / "site")
    return package / "site"
