"""The recordings of all workers of a node as one: the modules of the first, the variables and contexts of each."""

import asyncio
import os
from collections.abc import Iterator

import pytest

from elasticjob_agent.warm_start.node_recording import NodeRecording
from testing.waiting import scaled
from tests.integration.warm_start.test_recording import HELLO


@pytest.fixture
async def recording() -> "Iterator[NodeRecording]":  # type: ignore[misc]
    recording = NodeRecording(2)
    yield recording
    recording.close()


def _modules(names: str) -> bytes:
    return b"".join(b"%c\t/lib/%c.py\n" % (name, name) for name in names.encode())


@pytest.mark.parametrize("is_cut_off", [False, True], ids=["complete", "cut off before it was complete"])
async def test_a_variable_counts_from_the_first_place_that_a_worker_has_for_it(
    recording: NodeRecording, *, is_cut_off: bool
) -> None:
    """The other worker has not imported c. One that was cut off might still have done so."""
    first, other = recording.write_fds
    os.write(first, HELLO + _modules("ab") + b"=FOO\tb'1'\n=BAR\tb'2'\n" + _modules("cd") + b"=SAME\tb'3'\n")
    os.write(other, HELLO + _modules("ba") + b"=SAME\tb'3'\n=FOO\tb'2'\n" + _modules("d") + b"=OWN\tb'4'\n")
    if is_cut_off:
        recording.workers_started()  # there is none, so the pipes end
    await recording.wait_complete(greeting_s=1000.0, quiet_s=1000.0 if is_cut_off else 0.05)
    assert recording.modules == {name: f"/lib/{name}.py" for name in "abcd"}
    assert recording.variables == {
        "FOO": ("b", ""),
        "BAR": ("b", "b'2'"),
        "SAME": ("b" if is_cut_off else "c", "b'3'"),
        "OWN": ("b" if is_cut_off else "d", "b'4'"),
    }
    assert recording.known_variables == {"FOO", "BAR", "SAME", "OWN"}


async def test_the_contexts_and_folders_of_each_worker_count(recording: NodeRecording) -> None:
    first, other = recording.write_fds
    os.write(first, HELLO + b"\t/one\n~a\tcall:\na\t/lib/a.py\n")
    os.write(other, HELLO + b"\t/one\n\t/two\n~a\tthread:\na\t/lib/a.py\n~b\twith:\nb\t/lib/b.py\n")
    await recording.wait_complete(greeting_s=1000.0, quiet_s=0.05)
    assert recording.contexts == {"a": "thread:", "b": "with:"}
    assert recording.folders == ["/one", "/two"]
    assert recording.modules == {"a": "/lib/a.py"}


async def test_it_is_complete_when_each_worker_is(recording: NodeRecording) -> None:
    first, other = recording.write_fds
    os.write(first, HELLO + _modules("a"))
    waiting = asyncio.create_task(recording.wait_complete(greeting_s=1000.0, quiet_s=0.05))
    os.write(other, HELLO)
    os.write(other, b"=FOO\tb'1'\n")
    async with asyncio.timeout(scaled(30)):
        await waiting
    assert recording.known_variables == {"FOO"}


async def test_the_other_workers_are_awaited_until_they_end(recording: NodeRecording) -> None:
    os.write(recording.write_fds[0], HELLO)
    waiting = asyncio.create_task(recording.wait_complete(greeting_s=1000.0, quiet_s=0.05))
    done, _ = await asyncio.wait([waiting], timeout=0.3)
    assert not done
    recording.workers_started()  # there is none, so the pipes end
    async with asyncio.timeout(scaled(30)):
        await waiting


async def test_the_lines_of_another_worker_take_little_memory(recording: NodeRecording) -> None:
    _, other = recording.write_fds
    os.set_blocking(other, False)
    rest = memoryview(HELLO + b"".join(b"m%d\t/" % number + b"x" * 4000 + b"\n" for number in range(1000)))
    while rest:
        try:
            rest = rest[os.write(other, rest) :]
        except BlockingIOError:
            await asyncio.sleep(0)
    recording.workers_started()
    await recording.wait_complete(greeting_s=1000.0, quiet_s=1000.0)
    [_, kept] = recording._each
    assert 100 < len(kept.begun) < (1 << 21) / 4000
