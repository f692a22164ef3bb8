"""The end of a pump: it reads the rest of the pipe, even if another process still has the pipe open."""

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


async def test_a_drain_without_time_reads_what_is_there(pipe: tuple[int, int]) -> None:
    shown: list[bytes] = []
    pump = LinePump(pipe[0], LineSink(path=None, prefix=b"", write=shown.append), None)
    os.write(pipe[1], b"last\nwords")
    pump.leader_ended(max_s=0)
    assert pump.done.done()
    assert shown == [b"last\n", b"words\n"]
