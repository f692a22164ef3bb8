"""Fixtures of the tests of the command line."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.agent.agents import Agents, free_pair


@pytest.fixture
def agents(tmp_path: Path) -> Iterator[Agents]:
    made = Agents(tmp_path)
    yield made
    made.close()


@pytest.fixture
def port() -> int:
    return free_pair()
