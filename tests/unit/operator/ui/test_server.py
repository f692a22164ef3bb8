"""Responses of the page's server over a real socket, and rules for its files."""

import asyncio
import json
import re
import socket
from collections.abc import AsyncIterator
from importlib import resources
from typing import Any

import aiohttp
import pytest

from elasticjob_api.rendezvous_view import RendezvousView
from elasticjob_api.status import JobStatus
from elasticjob_operator.errors import OperatorError
from elasticjob_operator.ui import PageServer, PageState, server
from testing.builders import NOW_S
from tests.unit.operator.ui.page_states import key, obj

STATIC = resources.files("elasticjob_operator.ui") / "static"
FILES = ("", "app.js", "app.css")


@pytest.fixture
def board() -> PageState:
    made = PageState()
    made.reconciled(key("a"), obj(), JobStatus(), RendezvousView(), NOW_S)
    return made


@pytest.fixture
async def shown(board: PageState, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[PageServer]:
    monkeypatch.setattr(server, "MIN_INTERVAL_S", 0.01)
    async with PageServer(board) as made, asyncio.timeout(30):
        yield made


async def next_message(lines: aiohttp.StreamReader) -> Any:
    """Return the next message that is not a comment."""
    while True:
        line = (await lines.readline()).decode()
        if line.startswith("data: "):
            return json.loads(line.removeprefix("data: "))


async def test_the_files_have_a_policy_that_names_no_other_host(shown: PageServer) -> None:
    async with aiohttp.ClientSession() as session:
        for name in FILES:
            async with session.get(shown.url + name) as answer:
                policy = answer.headers["Content-Security-Policy"]
                assert answer.status == 200
                assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'")
                assert "unsafe" not in policy
                assert answer.headers["X-Content-Type-Options"] == "nosniff"


async def test_the_list_is_sent_whole_at_first_and_then_by_its_changes(shown: PageServer, board: PageState) -> None:
    async with aiohttp.ClientSession() as session, session.get(f"{shown.url}api/jobs") as answer:
        assert [job["name"] for job in (await next_message(answer.content))["all"]] == ["a"]
        board.reconciled(key("b"), obj(), JobStatus(), RendezvousView(), NOW_S)
        news = await next_message(answer.content)
        assert ([job["name"] for job in news["some"]], news["gone"]) == (["b"], [])
        board.deleted(key("a"))
        assert (await next_message(answer.content))["gone"] == [["team", "a"]]


async def test_a_job_is_sent_again_after_a_change_and_after_its_deletion(shown: PageServer, board: PageState) -> None:
    async with aiohttp.ClientSession() as session, session.get(f"{shown.url}api/jobs/team/a") as answer:
        assert (await next_message(answer.content))["job"]["restarts"] == 0
        board.reconciled(key("a"), obj(), JobStatus(restarts=2), RendezvousView(), NOW_S)
        assert (await next_message(answer.content))["job"]["restarts"] == 2
        board.deleted(key("a"))
        assert await next_message(answer.content) == {"gone": True}


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
async def test_requests_that_write_are_refused(shown: PageServer, method: str) -> None:
    async with aiohttp.ClientSession() as session, session.request(method, f"{shown.url}api/jobs") as answer:
        assert answer.status == 405


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8081", "127.0.0.1.evil.example", "[::2]:8081", ""])
async def test_a_request_for_another_host_name_is_refused(shown: PageServer, host: str) -> None:
    async with aiohttp.ClientSession() as session, session.get(shown.url, headers={"Host": host}) as answer:
        assert answer.status == 403
        assert "Content-Security-Policy" in answer.headers


@pytest.mark.parametrize("host", ["localhost:9000", "127.0.0.1", "[::1]:80"])
async def test_a_forwarded_port_counts_as_this_machine(shown: PageServer, host: str) -> None:
    async with aiohttp.ClientSession() as session, session.get(shown.url, headers={"Host": host}) as answer:
        assert answer.status == 200


async def test_a_stream_beyond_the_limit_is_refused(shown: PageServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "MAX_STREAMS", 1)
    async with aiohttp.ClientSession() as session, session.get(f"{shown.url}api/jobs") as first:
        await next_message(first.content)
        async with session.get(f"{shown.url}api/jobs") as second:
            assert (second.status, await second.text()) == (503, "this page has 1 streams already\n")


async def test_a_port_in_use_is_an_error_that_names_it(board: PageState) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(OperatorError, match=f"cannot serve the web page on 127.0.0.1:{port}"):
            await PageServer(board, port=port).__aenter__()


@pytest.mark.parametrize("name", ["index.html", "app.js", "app.css"])
def test_the_files_insert_no_text_as_html_and_name_no_host(name: str) -> None:
    text = (STATIC / name).read_text()
    forbidden = r"innerHTML|outerHTML|insertAdjacent|document\.write|\beval\b|new Function|srcdoc|setTimeout\(\""
    assert not re.search(forbidden, text)
    assert set(re.findall(r"\w+://[^\s\"'`]+", text)) <= {"http://www.w3.org/2000/svg"}
    assert not re.search(r"\son\w+=|style=\"|<script>", text)
