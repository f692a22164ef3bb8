"""The imports of a worker, as read from the pipe of its recorder; any program of the user may write to it."""

import asyncio
import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from elasticjob_agent.warm_start.greeting import MAX_BYTES
from elasticjob_agent.warm_start.recording import Recording
from testing.waiting import aeventually, scaled

_GREETING = {
    "pid": 7,
    "executable": "/usr/bin/python3.11",
    "cmdline": ["python", "train.py"],
    "argv0": "train.py",
    "version": [3, 11, 7],
    "implementation": "cpython",
    "libc": "glibc 2.36",
    "gil": True,
    **dict.fromkeys(
        ["debug_build", "tracer", "inspect", "safe_path", "usercustomize", "import_log", "debug_allocator"], False
    ),
}
HELLO = ascii(_GREETING).encode() + b"\n"


@pytest.fixture
async def recording() -> "Iterator[Recording]":  # type: ignore[misc]
    recording = Recording()
    yield recording
    recording.close()


async def _complete(recording: Recording) -> None:
    await recording.wait_complete(greeting_s=1000.0, quiet_s=0.05)


async def _write(recording: Recording, data: bytes) -> None:
    os.set_blocking(recording.write_fd, False)
    rest = memoryview(data)
    while rest:
        with contextlib.suppress(BlockingIOError):
            rest = rest[os.write(recording.write_fd, rest) :]
        await asyncio.sleep(0)


async def test_a_recording_has_the_greeting_and_the_modules_in_their_order(recording: Recording) -> None:
    os.write(recording.write_fd, HELLO + b"torch\t/lib/torch.py\n\t/job/lib\nnumpy\tbuilt-in\ntorch\t/other\n")
    await _complete(recording)
    assert recording.greeting is not None
    assert list(recording.modules.items()) == [("torch", "/lib/torch.py"), ("numpy", "built-in")]
    assert list(recording.folders) == ["/job/lib"]
    assert not recording.has_ended


async def test_a_recording_that_came_before_the_wait_is_complete(recording: Recording) -> None:
    os.write(recording.write_fd, HELLO + b"torch\t/lib/torch.py\n")
    await aeventually(lambda: recording.modules, what="the line")
    async with asyncio.timeout(scaled(30)):
        await _complete(recording)


async def test_lines_that_are_no_module_are_ignored(recording: Recording) -> None:
    os.write(
        recording.write_fd, HELLO + b"\n\xff\xfe\t/x\nno tab\n../etc\t/x\na b\t/x\n1x\t/x\n" + b"x" * 400 + b"\t/x\n"
    )
    await _complete(recording)
    assert recording.modules == {}


async def test_a_recording_has_the_contexts_of_imports(recording: Recording) -> None:
    lines = b"~torch\twith:\ntorch\t/lib/torch.py\n~numpy\t:torch\n~x\tother\n~a b\twith:\n~y\twith:a b\n"
    os.write(recording.write_fd, HELLO + lines)
    await _complete(recording)
    assert recording.contexts == {"torch": "with:", "numpy": ":torch"}
    assert list(recording.modules) == ["torch"]


async def test_a_variable_that_was_changed_for_a_time_is_known_and_not_one_of_the_script(recording: Recording) -> None:
    os.write(recording.write_fd, HELLO + b"*HOME\t\n*FOO\t\n=FOO\tb'1'\n")
    await _complete(recording)
    assert recording.known_variables == {"HOME", "FOO"}
    assert recording.variables == {"FOO": ("", "b'1'")}


async def test_another_first_line_is_no_greeting(recording: Recording) -> None:
    os.write(recording.write_fd, b"Downloading the data\ntorch\t/lib/torch.py\n")
    await _complete(recording)
    assert recording.greeting is None


async def test_a_line_without_an_end_takes_little_memory(recording: Recording) -> None:
    for _ in range(8):
        os.write(recording.write_fd, b"x" * (MAX_BYTES // 2))
        await asyncio.sleep(0)
        await aeventually(lambda: len(recording._partial_line) > 0, what="a part of a line")
    recording.worker_started()
    await aeventually(lambda: recording.has_ended, what="the end of the pipe")
    assert len(recording._partial_line) <= MAX_BYTES + 1


async def test_long_lines_and_paths_take_a_limited_memory(recording: Recording) -> None:
    os.write(recording.write_fd, HELLO + b"huge\t/" + b"x" * 4096 + b"\n")
    await _write(recording, b"".join(b"m%d\t/" % number + b"x" * 4000 + b"\n" for number in range(6000)))
    recording.worker_started()
    await aeventually(lambda: recording.has_ended, what="the end of the pipe")
    assert "huge" not in recording.modules
    assert 1000 < len(recording.modules) < (1 << 24) / 4000


async def test_many_folders_are_found_without_a_search(recording: Recording) -> None:
    folders = b"".join(b"\t/" + b"x" * 3000 + b"%d\n" % number for number in range(1000))
    await _write(recording, HELLO + 3 * folders)
    recording.worker_started()
    await aeventually(lambda: recording.has_ended, what="the end of the pipe")
    assert len(recording.folders) == 1000
    assert isinstance(recording.folders, dict)  # a list of them would be searched for each line


async def test_the_end_of_the_worker_ends_the_wait(recording: Recording) -> None:
    waiting = asyncio.create_task(recording.wait_complete(greeting_s=1000.0, quiet_s=1000.0))
    os.write(recording.write_fd, HELLO)
    await aeventually(lambda: recording.greeting, what="the greeting")
    recording.worker_started()
    await waiting
    assert recording.has_ended


async def test_a_wait_without_a_greeting_ends(recording: Recording) -> None:
    await recording.wait_complete(greeting_s=0.05, quiet_s=1000.0)
    assert (recording.greeting, recording.has_ended) == (None, False)


async def test_closed_recordings_have_no_descriptors() -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))  # noqa: ASYNC240
    for _ in range(5):
        recording = Recording()
        recording.worker_started()
        recording.close()
        recording.close()
    assert len(list(Path("/proc/self/fd").iterdir())) == before  # noqa: ASYNC240
