"""The asker's desk: who may come, what counts, and what is left out."""

import asyncio
import contextlib
import json
import pickle
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from elasticjob.nodes import wire
from elasticjob.nodes.desk import Desk
from elasticjob_agent.supervisor.function_child import RAISED, VALUE

KEY = "the key of this call"
HELLO = wire.Hello(key=KEY, kind=wire.RESULT, host="node-1", round=1, rank=0, world_size=2, how=VALUE)
PARCEL = b"function and arguments"
TERMS = wire.Terms(
    run_id="run",
    nprocs=1,
    min_nodes=1,
    max_nodes=2,
    max_restarts=0,
    join_timeout_s=1.0,
    last_call_timeout_s=1.0,
    max_result_bytes=1000,
    size=len(PARCEL),
)


class Office:
    """A desk that is open, and ways to come to it."""

    def __init__(self, folder: Path) -> None:
        self.desk = Desk(folder, KEY, TERMS, PARCEL)
        self.port = 0

    async def bring(self, line: bytes, payload: bytes = b"") -> bytes:
        """Say this; what is answered until the end of the connection."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write(line + payload)
        writer.write_eof()
        answer = await reader.read()
        writer.close()
        return answer

    async def deliver(self, value: Any, **fields: Any) -> bytes:
        """A result."""
        payload = pickle.dumps(value)
        return await self.bring(wire.line_of(replace(HELLO, size=len(payload), **fields)), payload)


@pytest.fixture
async def office(tmp_path: Path) -> AsyncIterator[Office]:
    made = Office(tmp_path)
    made.port = await made.desk.open()
    yield made
    await made.desk.close()


async def test_results_are_there_when_every_rank_of_the_round_has_delivered(office: Office) -> None:
    assert await office.deliver("one", rank=1) == wire.TAKEN
    assert office.desk.results(1) is None
    assert await office.deliver("zero") == wire.TAKEN
    assert office.desk.results(1) == {0: "zero", 1: "one"}


async def test_results_of_another_round_do_not_count(office: Office) -> None:
    await office.deliver("old")
    await office.deliver("old", rank=1)
    await office.deliver("new", round=2, world_size=1)
    assert office.desk.results(2) == {0: "new"}


def files_in(folder: Path) -> int:
    return len(list(folder.iterdir()))


async def test_a_result_that_comes_twice_counts_once(office: Office, tmp_path: Path) -> None:
    await office.deliver("first", world_size=1)
    await office.deliver("second", world_size=1)
    assert office.desk.results(1) == {0: "second"}
    assert files_in(tmp_path) == 1


async def test_who_does_not_have_the_key_gets_nothing_and_brings_nothing(
    office: Office, caplog: pytest.LogCaptureFixture
) -> None:
    assert await office.deliver("evil", key="another", world_size=1) == b""
    assert await office.bring(wire.line_of(replace(HELLO, key="another", kind=wire.JOIN))) == b""
    assert office.desk.results(1) is None
    assert "node-1 does not have the key of this call" in caplog.text


@pytest.mark.parametrize("line", [b"", b"GET / HTTP/1.1\r\n\r\n", b"[]\n", b'{"key": 1}\n', b"x" * 200_000])
async def test_what_is_no_greeting_is_ended(office: Office, line: bytes) -> None:
    with contextlib.suppress(ConnectionError):  # a reset: it did not even read to the end
        assert await office.bring(line) == b""


async def test_a_result_that_is_cut_off_does_not_count(office: Office) -> None:
    assert await office.bring(wire.line_of(replace(HELLO, size=100, world_size=1)), b"half") == b""
    assert office.desk.results(1) is None


async def test_failures_of_the_last_round_are_told(office: Office) -> None:
    for round_, text in ((1, "old"), (2, "new")):
        said = json.dumps({"type": "ValueError", "text": text, "traceback": "Traceback"}).encode()
        hello = replace(HELLO, round=round_, how=RAISED, size=len(said))
        assert await office.bring(wire.line_of(hello), said) == wire.TAKEN
    failures = office.desk.failures()
    assert [(rank, each.error, each.host) for rank, each in failures.items()] == [(0, "ValueError: new", "node-1")]


async def test_a_guest_gets_the_function_and_the_last_word(office: Office) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", office.port)
    writer.write(wire.line_of(wire.Hello(key=KEY, kind=wire.JOIN, host="node-1")))
    assert wire.Terms(**wire.fields_of(await reader.readline())) == TERMS
    assert await reader.readexactly(len(PARCEL)) == PARCEL
    await office.desk.close()
    assert await reader.read() == wire.OVER
    writer.close()
