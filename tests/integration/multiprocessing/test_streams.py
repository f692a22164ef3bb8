"""Streams: byte-exact files, whole prefixed lines, filters, consoles that are slow, closed or unusual."""

import io
import os
from pathlib import Path
from typing import Any

import pytest

from elasticjob_agent.multiprocessing import DefaultLogsSpecs, Std
from testing.waiting import eventually
from tests.integration.multiprocessing import functions
from tests.integration.multiprocessing.conftest import Start
from tests.integration.multiprocessing.parents import parent


def _sh(*scripts: str) -> dict[int, tuple[str, str]]:
    return {rank: ("-c", script) for rank, script in enumerate(scripts)}


@pytest.fixture
def console() -> io.StringIO:
    """A stdout that is an object without a descriptor."""
    return io.StringIO()


@pytest.mark.parametrize(("method", "count"), [("spawn", 1000), ("fork", 250_000)])
def test_b_000_41_output_of_every_kind_is_in_the_file(start: Start, method: str, count: int) -> None:
    context = start(functions.write_everywhere, {0: (count,)}, start_method=method, redirects=Std.ALL)
    assert context.wait(60)
    text = Path(context.stdouts[0]).read_text()
    for writer in ("python", "c"):
        assert [line for line in text.splitlines() if line.startswith(f"{writer} ")] == [
            f"{writer} {n}" for n in range(count)
        ]
    assert text.endswith("descriptor\nshell\n")
    assert Path(context.stderrs[0]).read_text() == "to stderr\n"


def test_b_000_42_a_tee_is_in_the_file_and_prefixed_on_the_console(start: Start, console: io.StringIO) -> None:
    context = start(
        "sh", _sh("echo out; echo err >&2", "echo hidden"), tee={0: Std.OUT}, redirects=Std.ALL, console=console
    )
    assert context.wait(60)
    assert console.getvalue() == "[w0]:out\n"
    assert Path(context.stdouts[0]).read_text() == "out\n"
    assert Path(context.stdouts[1]).read_text() == "hidden\n"


def test_own_prefixes(start: Start, console: io.StringIO) -> None:
    start("echo", {0: ("a",), 1: ("b",)}, tee=Std.OUT, log_line_prefixes={1: "<one> "}, console=console).wait(60)
    assert sorted(console.getvalue().splitlines()) == ["<one> b", "[w0]:a"]


def test_b_000_43_and_k_000_02_last_lines_of_short_workers(start: Start, console: io.StringIO) -> None:
    """Run ten contexts of a hundred each, so that the limits of the machine have no effect."""
    for number in range(10):
        args = {rank: (f"line {number} {rank}",) for rank in range(100)}
        start("echo", args, tee=Std.OUT, log_line_prefixes=dict.fromkeys(args, ""), console=console).wait(60)
    assert sorted(console.getvalue().splitlines()) == sorted(
        f"line {n} {rank}" for n in range(10) for rank in range(100)
    )


@pytest.mark.parametrize("size", [100_000, 50_000_000])
def test_b_000_44_a_line_without_end(start: Start, console: io.StringIO, size: int) -> None:
    context = start(functions.many_bytes, {0: (size,)}, start_method="fork", tee=Std.OUT, console=console)
    assert context.wait(60)
    assert Path(context.stdouts[0]).stat().st_size == size
    assert console.getvalue().count("y") == size


ODD = "ok\xff\n".encode("latin-1") + b"nul\0\n" + b"10%\r20%\r\nend" + "\N{EURO SIGN}".encode()
SHOWN = ["ok\N{REPLACEMENT CHARACTER}", "nul\0", "10%", "20%", "end\N{EURO SIGN}"]


@pytest.mark.parametrize("write", [functions.raw, functions.in_pieces])
def test_b_000_45_and_k_000_03_odd_bytes(start: Start, console: io.StringIO, write: Any) -> None:
    context = start(write, {0: (ODD,)}, start_method="fork", tee=Std.OUT, console=console)
    assert context.wait(60)
    assert Path(context.stdouts[0]).read_bytes() == ODD
    assert console.getvalue().split("\n") == [*(f"[w0]:{line}" for line in SHOWN), ""]


@pytest.mark.parametrize("how", ["os.close(1)", "sys.stdout.close()", "sys.stdout = None", "sys.stdout = object()"])
def test_b_000_46_strange_consoles(tmp_path: Path, how: str) -> None:
    script = f"""
{how}
ctx = sh("echo teed", tee=Std.OUT)
other = sh("echo inherited")
assert not ctx.wait().is_failed() and not other.wait().is_failed()
assert open(ctx.stdouts[0]).read() == "teed\\n"
os._exit(0)
"""
    with parent(script, tmp_path) as one:
        code, _, err = one.end()
        assert code == 0, err
        assert err.count("WARNING") == 1


def test_b_000_46_a_broken_pipe(tmp_path: Path) -> None:
    script = """
reader, writer = os.pipe()
os.dup2(writer, 1)
os.close(reader)
os.close(writer)
ctx = sh("echo teed", tee=Std.OUT)
assert not ctx.wait().is_failed()
assert open(ctx.stdouts[0]).read() == "teed\\n"
os._exit(7)
"""
    with parent(script, tmp_path) as one:
        code, _, err = one.end()
        assert (code, err.count("WARNING")) == (7, 1)


def test_b_000_47_a_console_that_stalls(tmp_path: Path) -> None:
    """The parent's stdout is not read until the end; the result and the files do not wait for it."""
    script = """
ctx = sh("yes | head -c 3000000", tee=Std.OUT)
result = ctx.wait()
assert os.path.getsize(ctx.stdouts[0]) == 3000000
print("over", result.is_failed(), file=sys.stderr, flush=True)
os._exit(0)
"""
    with parent(script, tmp_path) as one:
        assert one.process.stderr
        assert one.process.stderr.readline() == "over False\n"


def test_b_000_48_a_full_disk(start: Start, console: io.StringIO, tmp_path: Path) -> None:
    context = _to_full_disk(tmp_path, start, console)
    assert context.wait(60)
    lines = console.getvalue().splitlines()
    assert "[w0]:after" in lines
    assert len([line for line in lines if "ends here" in line]) == 1


def _to_full_disk(tmp_path: Path, start: Start, console: io.StringIO) -> Any:
    class Full(DefaultLogsSpecs):
        def reify(self, envs: dict[int, dict[str, str]]) -> Any:
            dest = super().reify(envs)
            dest.stdouts[0] = dest.tee_stdouts[0] = "/dev/full"
            return dest

    specs = Full(str(tmp_path / "full"), tee=Std.OUT)
    return start("sh", _sh("echo before; sleep 0.1; echo after"), logs_specs=specs, console=console)


def test_b_000_49_a_grandchild_holds_the_pipe(start: Start, console: io.StringIO) -> None:
    context = start("sh", _sh("setsid sleep 600 & echo done"), tee=Std.OUT, console=console)
    assert context.wait(60)
    assert console.getvalue() == "[w0]:done\n"


def test_b_000_50_filtered_copies(start: Start, console: io.StringIO, tmp_path: Path) -> None:
    context = start(
        "sh",
        _sh("echo w0 loss; echo other", "echo acc 1", "echo loss unseen"),
        logs_specs=DefaultLogsSpecs(str(tmp_path / "l"), tee={0: Std.OUT, 1: Std.OUT}, redirects=Std.ALL),
        duplicate_stdout_filters=["loss", "acc", "w1"],
        console=console,
    )
    assert context.wait(60)
    assert context.filtered_stdout
    assert context.filtered_stderr is None
    assert sorted(Path(context.filtered_stdout).read_text().splitlines()) == ["[w0]:w0 loss", "[w1]:acc 1"]
    assert len(console.getvalue().splitlines()) == 3


def test_b_000_08_devnull_discards_everything(start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    specs = DefaultLogsSpecs(os.devnull, redirects=Std.ALL, tee=Std.ALL)
    context = start("sh", _sh("exit 3"), logs_specs=specs, duplicate_stdout_filters=["x"])
    result = context.wait(60)
    assert result
    assert (result.failures[0].exitcode, result.failures[0].error_file) == (3, "<N/A>")
    assert list(tmp_path.iterdir()) == []


def test_b_000_07_a_rank_that_the_filter_excludes(start: Start, console: io.StringIO, tmp_path: Path) -> None:
    specs = DefaultLogsSpecs(str(tmp_path / "l"), tee=Std.OUT, local_ranks_filter={1})
    context = start("sh", _sh("echo a; echo no >&2", "echo b"), logs_specs=specs, console=console)
    assert context.wait(60)
    assert console.getvalue() == "[w1]:b\n"
    assert Path(context.stdouts[0]).read_text() == "a\n"
    assert context.stderrs == {0: os.devnull, 1: ""}


def test_lines_are_shown_while_the_worker_runs(start: Start, console: io.StringIO, tmp_path: Path) -> None:
    context = start(
        "sh", _sh(f"echo early; while ! [ -e {tmp_path}/go ]; do sleep 0.02; done"), tee=Std.OUT, console=console
    )
    eventually(lambda: console.getvalue() == "[w0]:early\n", within_s=20)
    (tmp_path / "go").touch()
    assert context.wait(60)
