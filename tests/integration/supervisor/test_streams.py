"""Output of workers: nothing is lost or torn, even if a reader is slow, full or closed."""

import asyncio
import os
from collections import Counter
from pathlib import Path

import pytest

from elasticjob_agent.supervisor import Console, FileSink, StartError, Supervisor
from testing.waiting import aeventually
from tests.integration.supervisor.commands import Builder, RecordingConsole, sentence

_WRITER = """
import sys
for n in range(100_000):
    sys.stdout.write(f"{sys.argv[1]} {n} {'x' * (n % 200)}\\n")
"""


async def test_no_line_of_two_fast_writers_is_lost_or_torn(
    supervisor: Supervisor, build: Builder, tmp_path: Path
) -> None:
    out = RecordingConsole()
    children = await supervisor.spawn(
        [
            build.python(_WRITER, f"w{rank}", stdout=out.sink(tmp_path / str(rank), prefix=b"[%d] " % rank))
            for rank in range(2)
        ]
    )
    await asyncio.gather(*(child.drained for child in children))
    for rank in range(2):
        expected = [f"w{rank} {n} {'x' * (n % 200)}" for n in range(100_000)]
        assert (tmp_path / str(rank)).read_text().splitlines() == expected
        assert [line[4:] for line in out.lines if line.startswith(f"[{rank}] ")] == expected
    assert len(out.lines) == 200_000


async def test_a_last_line_without_a_newline_gets_one_on_the_console_only(
    supervisor: Supervisor, build: Builder, tmp_path: Path
) -> None:
    out = RecordingConsole()
    [child] = await supervisor.spawn([build("printf", "a\\nlast", stdout=out.sink(tmp_path / "log", prefix=b"> "))])
    await child.drained
    assert out.data == b"> a\n> last\n"
    assert (tmp_path / "log").read_bytes() == b"a\nlast"


async def test_a_worker_killed_in_the_middle_of_a_line_loses_nothing(supervisor: Supervisor, build: Builder) -> None:
    out = RecordingConsole()
    [child] = await supervisor.spawn([build("sh", "-c", "printf half; kill -9 $$", stdout=out.sink())])
    await child.drained
    assert out.lines == ["half"]


async def test_the_file_has_the_very_bytes(supervisor: Supervisor, build: Builder, tmp_path: Path) -> None:
    data = os.urandom(3_000_000) + b"\r\n\0\xff" + b"y" * 2_000_000
    (tmp_path / "data").write_bytes(data)
    out = RecordingConsole()
    [child] = await supervisor.spawn([build("cat", str(tmp_path / "data"), stdout=out.sink(tmp_path / "log"))])
    await child.drained
    assert (tmp_path / "log").read_bytes() == data
    assert len(out.data) >= len(data)


async def test_stdout_and_stderr_go_to_their_own_sinks(supervisor: Supervisor, build: Builder) -> None:
    out, err = RecordingConsole(), RecordingConsole()
    script = "echo out; echo err >&2"
    [child] = await supervisor.spawn([build("sh", "-c", script, stdout=out.sink(), stderr=err.sink(prefix=b"! "))])
    await child.drained
    assert (out.lines, err.lines) == (["out"], ["! err"])


async def test_a_grandchild_that_keeps_the_pipe_open_does_not_delay_the_exit(
    supervisor: Supervisor, build: Builder
) -> None:
    out = RecordingConsole()
    [child] = await supervisor.spawn([build("sh", "-c", "sleep 1000 & printf last; exit 3", stdout=out.sink())])
    assert await sentence(child) == "exited with code 3"
    assert not child.drained.done()
    await child.drained
    assert out.lines == ["last"]


async def test_a_sweep_of_that_grandchild_ends_the_wait_at_once(supervisor: Supervisor, build: Builder) -> None:
    out = RecordingConsole()
    [child] = await supervisor.spawn([build("sh", "-c", "yes & exit 3", stdout=out.sink())])
    await child.exit
    await supervisor.sweep([child])
    assert child.drained.done()


async def test_the_last_lines_of_500_short_workers_all_arrive(
    supervisor: Supervisor, build: Builder, tmp_path: Path
) -> None:
    out = RecordingConsole()
    for batch in range(5):
        ranks = range(batch * 100, batch * 100 + 100)
        sinks = {rank: out.sink(tmp_path / str(rank), prefix=b"[%d] " % rank) for rank in ranks}
        children = await supervisor.spawn([build("echo", f"last of {rank}", stdout=sinks[rank]) for rank in ranks])
        await asyncio.gather(*(child.drained for child in children))
        await supervisor.sweep(children)
    assert Counter(out.lines) == Counter(f"[{rank}] last of {rank}" for rank in range(500))
    assert all((tmp_path / str(rank)).read_text() == f"last of {rank}\n" for rank in range(500))


async def test_a_full_disk_ends_the_file_with_one_line_and_the_worker_continues(
    supervisor: Supervisor, build: Builder
) -> None:
    out = RecordingConsole()
    script = "echo 1; read line; echo 2; exit 6"
    lines = out.sink(Path("/dev/full"), prefix=b"[0] ")
    [child] = await supervisor.spawn([build("sh", "-c", script, stdout=lines)])
    await child.drained
    assert sorted(out.lines) == [
        "[0] 1",
        "[0] 2",
        "[0] log file /dev/full ends here: No space left on device; the worker continues, its output is only shown",
    ]
    assert await sentence(child) == "exited with code 6"


async def test_a_log_file_that_cannot_be_opened_closes_the_pipes(supervisor: Supervisor, build: Builder) -> None:
    before = _descriptors()
    out = RecordingConsole()
    with pytest.raises(Exception, match="cannot open /opt/none/log"):
        await supervisor.spawn([build("true", stdout=out.sink(), stderr=out.sink(Path("/opt/none/log")))])
    await aeventually(lambda: _descriptors() == before)


def _descriptors() -> set[str]:
    return {path.name for path in Path("/proc/self/fd").iterdir()}


@pytest.mark.parametrize("kind", ["a FIFO", "a link to a FIFO"])
async def test_a_fifo_without_a_reader_in_place_of_a_log_file_is_an_error(
    supervisor: Supervisor, build: Builder, tmp_path: Path, kind: str
) -> None:
    path, fifo = tmp_path / "log", tmp_path / "fifo"
    os.mkfifo(fifo)
    path.symlink_to(fifo) if kind == "a link to a FIFO" else fifo.rename(path)
    for sink in (FileSink(path), RecordingConsole().sink(path)):
        with pytest.raises(StartError, match="log: it is a FIFO that has no reader"):
            await supervisor.spawn([build("true", stdout=sink)])


async def test_a_fifo_that_is_full_ends_the_copy_and_the_worker_continues(
    supervisor: Supervisor, build: Builder, tmp_path: Path
) -> None:
    path = tmp_path / "log"
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    out = RecordingConsole()
    [child] = await supervisor.spawn([build.python("print('x' * 2_000_000)", stdout=out.sink(path))])
    await child.drained
    os.close(reader)
    assert out.data.count(b"x") >= 2_000_000
    assert b"log ends here: Resource temporarily unavailable" in out.data


async def test_a_worker_may_block_on_its_log_file(supervisor: Supervisor, build: Builder, tmp_path: Path) -> None:
    show = "import os; print(os.get_blocking(1))"
    [child] = await supervisor.spawn([build.python(show, stdout=FileSink(tmp_path / "log"))])
    await child.drained
    assert (tmp_path / "log").read_text() == "True\n"


async def test_a_stalled_console_does_not_delay_the_file(
    supervisor: Supervisor, build: Builder, tmp_path: Path
) -> None:
    read_end, write_end = os.pipe()
    console = Console(write_end, buffer_bytes=100_000)
    sink = RecordingConsole().sink(tmp_path / "log")
    lines = type(sink)(path=sink.path, prefix=b"", write=console.write)
    [child] = await supervisor.spawn([build("seq", "500000", stdout=lines)])
    await child.drained
    assert (tmp_path / "log").read_text().splitlines()[-1] == "500000"
    os.close(read_end)
    console.close()
    os.close(write_end)
