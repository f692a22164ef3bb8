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

from elasticjob.multinode import protocol
from elasticjob.multinode.authentication import CHALLENGE_BYTES, LINE_BYTES, Authenticator
from elasticjob.multinode.result_server import ResultServer
from elasticjob_agent.supervisor.function_worker import RAISED, VALUE

KEY = "the key of this call"
NONCE = "of this connection"
HELLO = protocol.Hello(nonce=NONCE, kind=protocol.RESULT, host="node-1", round=1, rank=0, world_size=2, outcome=VALUE)
PARCEL = b"function and arguments"
TERMS = protocol.CallSpec(
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
        self.desk = ResultServer(folder, KEY, TERMS, PARCEL)
        self.port = 0

    async def bring(self, line: bytes, payload: bytes = b"", *, key: str = KEY, sealed: bytes | None = None) -> bytes:
        """Say this, sealed with the key; what is answered until the end of the connection.

        Of the payload another one is `sealed`, as if it had been changed on the way.
        """
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        challenge = await reader.readexactly(CHALLENGE_BYTES)
        delivery = seal(key, protocol.RESULT_HELLO, challenge, payload if sealed is None else sealed)
        writer.write(line + seal(key, protocol.HELLO, challenge, line) + payload + delivery)
        writer.write_eof()
        answer = await reader.read()
        writer.close()
        return answer

    async def deliver(self, value: Any, *, key: str = KEY, **fields: Any) -> bytes:
        """A result."""
        payload = pickle.dumps(value)
        return await self.bring(protocol.line_of(replace(HELLO, size=len(payload), **fields)), payload, key=key)


def seal(key: str, purpose: bytes, challenge: bytes, data: bytes = b"") -> bytes:
    """The line behind the data."""
    made = Authenticator(key, purpose, challenge)
    made.update(data)
    return made.line


TAKEN, OVER = (Authenticator(KEY, word, NONCE.encode()).line for word in (protocol.ACK, protocol.DONE))


@pytest.fixture
async def office(tmp_path: Path) -> AsyncIterator[Office]:
    made = Office(tmp_path)
    made.port = await made.desk.open(everywhere=False)
    yield made
    await made.desk.close()


async def test_results_are_there_when_every_rank_of_the_round_has_delivered(office: Office) -> None:
    assert await office.deliver("one", rank=1) == TAKEN
    assert office.desk.results(1) is None
    assert await office.deliver("zero") == TAKEN
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
    assert await office.bring(protocol.line_of(replace(HELLO, kind=protocol.JOIN)), key="another") == b""
    assert office.desk.results(1) is None
    assert "the other end does not have the key of this call" in caplog.text


async def test_a_result_that_was_changed_on_the_way_does_not_count(office: Office, tmp_path: Path) -> None:
    sent, changed = pickle.dumps("mine"), pickle.dumps("evil")
    line = protocol.line_of(replace(HELLO, size=len(sent), world_size=1))
    assert await office.bring(line, changed, sealed=sent) == b""
    assert office.desk.results(1) is None
    assert await office.bring(line, sent) == TAKEN
    assert files_in(tmp_path) == 1


async def test_what_was_said_on_one_connection_opens_no_other(office: Office) -> None:
    """Who listens on the network has heard all of an earlier delivery."""
    line = protocol.line_of(replace(HELLO, size=0, world_size=1))
    reader, writer = await asyncio.open_connection("127.0.0.1", office.port)
    heard = b"0" * 32 + b"\n"
    writer.write(line + seal(KEY, protocol.HELLO, heard, line) + seal(KEY, protocol.RESULT_HELLO, heard))
    writer.write_eof()
    assert len(await reader.read()) == CHALLENGE_BYTES
    writer.close()
    assert office.desk.results(1) is None


@pytest.mark.parametrize("line", [b"", b"GET / HTTP/1.1\r\n\r\n", b"[]\n", b'{"nonce": 1}\n', b"x" * 200_000])
async def test_what_is_no_greeting_is_ended(office: Office, line: bytes) -> None:
    with contextlib.suppress(ConnectionError):  # a reset: it did not even read to the end
        assert await office.bring(line) == b""


async def test_a_result_that_is_cut_off_does_not_count(office: Office) -> None:
    assert await office.bring(protocol.line_of(replace(HELLO, size=100, world_size=1)), b"half") == b""
    assert office.desk.results(1) is None


async def test_failures_of_the_last_round_are_told(office: Office) -> None:
    for round_, text in ((1, "old"), (2, "new")):
        said = json.dumps({"type": "ValueError", "text": text, "traceback": "Traceback"}).encode()
        hello = replace(HELLO, round=round_, outcome=RAISED, size=len(said))
        assert await office.bring(protocol.line_of(hello), said) == TAKEN
    failures = office.desk.failures()
    assert [(rank, each.error, each.host) for rank, each in failures.items()] == [(0, "ValueError: new", "node-1")]


@pytest.mark.parametrize(("is_over", "word"), [(True, OVER), (False, b"")])
async def test_a_guest_gets_the_function_and_learns_whether_the_call_has_ended(
    office: Office, *, is_over: bool, word: bytes
) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", office.port)
    challenge = await reader.readexactly(CHALLENGE_BYTES)
    line = protocol.line_of(protocol.Hello(nonce=NONCE, kind=protocol.JOIN, host="node-1"))
    writer.write(line + seal(KEY, protocol.HELLO, challenge, line))
    terms = await reader.readline()
    assert protocol.CallSpec(**protocol.fields_of(terms)) == TERMS
    call = Authenticator(KEY, protocol.CALL, NONCE.encode(), terms)
    call.require(await reader.readexactly(LINE_BYTES))
    assert await reader.readexactly(len(PARCEL)) == PARCEL
    call.update(PARCEL)
    call.require(await reader.readexactly(LINE_BYTES))
    if is_over:
        office.desk.finish_call()
    await office.desk.close()
    assert await reader.read() == word
    writer.close()
