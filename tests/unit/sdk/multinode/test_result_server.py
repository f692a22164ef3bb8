"""The driver's result server: authentication, results that count, and data that is ignored."""

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
PAYLOAD = b"function and arguments"
SPEC = protocol.CallSpec(
    run_id="run",
    nprocs=1,
    min_nodes=1,
    max_nodes=2,
    max_restarts=0,
    join_timeout_s=1.0,
    last_call_timeout_s=1.0,
    max_result_bytes=1000,
    size=len(PAYLOAD),
)


class Clients:
    """An open result server, and clients of it."""

    def __init__(self, folder: Path) -> None:
        self.server = ResultServer(folder, KEY, SPEC, PAYLOAD)
        self.port = 0

    async def bring(self, line: bytes, payload: bytes = b"", *, key: str = KEY, sealed: bytes | None = None) -> bytes:
        """Send this, sealed with the key; return the answer until the end of the connection.

        With `sealed`, the seal covers that payload instead, as if the data was changed on the way.
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
        """Deliver a result; return the answer."""
        payload = pickle.dumps(value)
        return await self.bring(protocol.line_of(replace(HELLO, size=len(payload), **fields)), payload, key=key)


def seal(key: str, purpose: bytes, challenge: bytes, data: bytes = b"") -> bytes:
    """Return the seal of some data as a line."""
    made = Authenticator(key, purpose, challenge)
    made.update(data)
    return made.line


TAKEN, OVER = (Authenticator(KEY, word, NONCE.encode()).line for word in (protocol.ACK, protocol.DONE))


@pytest.fixture
async def clients(tmp_path: Path) -> AsyncIterator[Clients]:
    made = Clients(tmp_path)
    made.port = await made.server.open(everywhere=False)
    yield made
    await made.server.close()


async def test_results_exist_when_every_rank_of_the_round_has_delivered(clients: Clients) -> None:
    assert await clients.deliver("one", rank=1) == TAKEN
    assert clients.server.results(1) is None
    assert await clients.deliver("zero") == TAKEN
    assert clients.server.results(1) == {0: "zero", 1: "one"}


async def test_results_of_another_round_do_not_count(clients: Clients) -> None:
    await clients.deliver("old")
    await clients.deliver("old", rank=1)
    await clients.deliver("new", round=2, world_size=1)
    assert clients.server.results(2) == {0: "new"}


def files_in(folder: Path) -> int:
    return len(list(folder.iterdir()))


async def test_a_repeated_result_counts_once(clients: Clients, tmp_path: Path) -> None:
    await clients.deliver("first", world_size=1)
    await clients.deliver("second", world_size=1)
    assert clients.server.results(1) == {0: "second"}
    assert files_in(tmp_path) == 1


async def test_a_client_without_the_key_receives_nothing_and_delivers_nothing(
    clients: Clients, caplog: pytest.LogCaptureFixture
) -> None:
    assert await clients.deliver("evil", key="another", world_size=1) == b""
    assert await clients.bring(protocol.line_of(replace(HELLO, kind=protocol.JOIN)), key="another") == b""
    assert clients.server.results(1) is None
    assert "the other end does not have the key of this call" in caplog.text


async def test_a_result_that_was_changed_on_the_way_does_not_count(clients: Clients, tmp_path: Path) -> None:
    sent, changed = pickle.dumps("mine"), pickle.dumps("evil")
    line = protocol.line_of(replace(HELLO, size=len(sent), world_size=1))
    assert await clients.bring(line, changed, sealed=sent) == b""
    assert clients.server.results(1) is None
    assert await clients.bring(line, sent) == TAKEN
    assert files_in(tmp_path) == 1


async def test_a_recorded_connection_cannot_be_replayed(clients: Clients) -> None:
    # A listener on the network may have recorded an earlier delivery.
    line = protocol.line_of(replace(HELLO, size=0, world_size=1))
    reader, writer = await asyncio.open_connection("127.0.0.1", clients.port)
    recorded = b"0" * 32 + b"\n"
    writer.write(line + seal(KEY, protocol.HELLO, recorded, line) + seal(KEY, protocol.RESULT_HELLO, recorded))
    writer.write_eof()
    assert len(await reader.read()) == CHALLENGE_BYTES
    writer.close()
    assert clients.server.results(1) is None


@pytest.mark.parametrize("line", [b"", b"GET / HTTP/1.1\r\n\r\n", b"[]\n", b'{"nonce": 1}\n', b"x" * 200_000])
async def test_a_connection_without_a_valid_hello_is_closed(clients: Clients, line: bytes) -> None:
    with contextlib.suppress(ConnectionError):  # a reset: it did not even read to the end
        assert await clients.bring(line) == b""


async def test_an_incomplete_result_does_not_count(clients: Clients) -> None:
    assert await clients.bring(protocol.line_of(replace(HELLO, size=100, world_size=1)), b"half") == b""
    assert clients.server.results(1) is None


async def test_failures_of_the_last_round_are_reported(clients: Clients) -> None:
    for round_, text in ((1, "old"), (2, "new")):
        failure = json.dumps({"type": "ValueError", "text": text, "traceback": "Traceback"}).encode()
        hello = replace(HELLO, round=round_, outcome=RAISED, size=len(failure))
        assert await clients.bring(protocol.line_of(hello), failure) == TAKEN
    failures = clients.server.failures()
    assert [(rank, each.error, each.host) for rank, each in failures.items()] == [(0, "ValueError: new", "node-1")]


@pytest.mark.parametrize(("is_over", "word"), [(True, OVER), (False, b"")])
async def test_a_node_receives_the_function_and_the_end_of_the_call(
    clients: Clients, *, is_over: bool, word: bytes
) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", clients.port)
    challenge = await reader.readexactly(CHALLENGE_BYTES)
    line = protocol.line_of(protocol.Hello(nonce=NONCE, kind=protocol.JOIN, host="node-1"))
    writer.write(line + seal(KEY, protocol.HELLO, challenge, line))
    terms = await reader.readline()
    assert protocol.CallSpec(**protocol.fields_of(terms)) == SPEC
    call = Authenticator(KEY, protocol.CALL, NONCE.encode(), terms)
    call.require(await reader.readexactly(LINE_BYTES))
    assert await reader.readexactly(len(PAYLOAD)) == PAYLOAD
    call.update(PAYLOAD)
    call.require(await reader.readexactly(LINE_BYTES))
    if is_over:
        clients.server.finish_call()
    await clients.server.close()
    assert await reader.read() == word
    writer.close()
