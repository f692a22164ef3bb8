"""The end of a pump: it reads the rest of the pipe, even if another process still has the pipe open."""

import asyncio
import os
from collections.abc import Iterator

import pytest

from elasticjob_agent.supervisor import LineSink
from elasticjob_agent.supervisor.stream_pump import LinePump


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    yield reader, writer
    os.close(writer)


async def test_the_first_byte_is_noted_once_before_its_line_is_complete(pipe: tuple[int, int]) -> None:
    noted, shown = asyncio.Event(), list[bytes]()
    calls: list[None] = []

    def note() -> None:
        calls.append(None)
        noted.set()

    pump = LinePump(pipe[0], LineSink(path=None, prefix=b"", write=shown.append, on_first_byte=note), None)
    os.write(pipe[1], b"50%")
    async with asyncio.timeout(30):
        await noted.wait()
    assert shown == []
    os.write(pipe[1], b"\n")
    pump.leader_ended(max_s=0)
    assert (len(calls), shown) == (1, [b"50%\n"])


async def test_a_drain_without_time_reads_what_is_there(pipe: tuple[int, int]) -> None:
    shown: list[bytes] = []
    pump = LinePump(pipe[0], LineSink(path=None, prefix=b"", write=shown.append), None)
    os.write(pipe[1], b"last\nwords")
    pump.leader_ended(max_s=0)
    assert pump.done.done()
    assert shown == [b"last\n", b"words\n"]
