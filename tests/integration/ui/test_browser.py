"""The page in a real browser: many jobs, a thousand ranks, hostile texts, live changes, and no requests to other hosts.

A browser is slow, so only `make nightly` runs these tests. `UI_PICTURES=folder` keeps their pictures for review.
"""

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from elasticjob_api.rendezvous_view import RendezvousView
from elasticjob_api.status import JobStatus
from elasticjob_operator.ui import PageServer, PageState
from testing.waiting import scaled
from tests.unit.operator.ui.page_states import HOSTILE, hostile, key, large, obj, small

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(900)]

ROOT = Path(__file__).parents[3]
LOOK = Path(__file__).with_name("look.py")
LONGEST_S = 240.0
JOBS = 200


@pytest.fixture(scope="session")
def tools() -> dict[str, str]:
    """The Python and the Chromium."""
    environ = {**os.environ, "PYTHON": sys.executable}
    done = subprocess.run(
        (ROOT / "hack" / "browser",), stdout=subprocess.PIPE, text=True, check=True, timeout=scaled(600), env=environ
    )
    return dict(line.split("=", 1) for line in done.stdout.split())


@pytest.fixture
async def page() -> AsyncIterator[tuple[PageState, PageServer]]:
    board, now_s = PageState(), time.time()
    small(board, JOBS, now_s=now_s)
    large(board, now_s=now_s)
    hostile(board, now_s=now_s)
    async with PageServer(board) as shown:
        yield board, shown


async def looker(tools: dict[str, str], *words: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        tools["PYTHON"], str(LOOK), tools["CHROMIUM"], *words, stdout=asyncio.subprocess.PIPE, limit=2**22
    )


async def seen(process: asyncio.subprocess.Process) -> dict[str, Any]:
    assert process.stdout is not None
    line = await process.stdout.readline()
    assert line, "the browser's process ended early; what it said is on stderr"
    found: dict[str, Any] = json.loads(line)
    return found


async def all_seen(tools: dict[str, str], url: str, folder: Path) -> dict[str, dict[str, Any]]:
    process = await looker(tools, url, str(folder))
    try:
        async with asyncio.timeout(LONGEST_S):
            told = [await seen(process) for _ in range(6)]
            assert await process.wait() == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return {each["page"]: each for each in told}


async def test_many_jobs_many_ranks_and_hostile_texts(
    tools: dict[str, str], page: tuple[PageState, PageServer], tmp_path: Path
) -> None:
    folder = Path(os.environ.get("UI_PICTURES", tmp_path))
    told = await all_seen(tools, page[1].url, folder)
    everything = told.pop("all")
    assert told["list"]["cells"] == JOBS + 2
    assert told["job"]["cells"] == told["memory"]["cells"] == 1000
    assert told["job"]["pointed"].startswith("rank 29 · failed · pod job-3-abcde")
    assert "memory" in told["memory"]["pointed"]
    assert "Fatal Python error: Segmentation fault" in told["job"]["text"]
    assert told["hostile"]["text"].count(HOSTILE) >= 10
    for each in told.values():
        assert (each["hurt"], each["images"], each["handlers"], each["state"]) == (None, 0, [], "live")
        assert each["scripts"] == [f"{page[1].url}app.js"]
        assert set(each["links"]) <= {"http:"}
        assert each["beyond"] == 0, f"{each['page']} is wider than the window"
    assert everything["said"] == []
    assert [url for url in everything["asked"] if not url.startswith((page[1].url, "data:,"))] == []


async def test_a_change_is_shown_without_a_reload(
    tools: dict[str, str], page: tuple[PageState, PageServer], tmp_path: Path
) -> None:
    process = await looker(tools, page[1].url, str(tmp_path), "JustNow")
    try:
        async with asyncio.timeout(LONGEST_S):
            assert await seen(process) == {"page": "list"}
            page[0].reconciled(key("train-003"), obj(), JobStatus(reason="JustNow"), RendezvousView(), time.time())
            assert await seen(process) == {"page": "list", "same": True}
    finally:
        process.kill()
        await process.wait()
