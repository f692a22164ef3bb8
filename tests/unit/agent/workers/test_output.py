"""The destinations of a worker's output: torchrun's table, and our differences from it."""

from pathlib import Path

import pytest

from elasticjob_agent.cli import values
from elasticjob_agent.rendezvous.protocol.ranks import Assignment
from elasticjob_agent.supervisor import FileSink, Inherit, LineSink, Null
from elasticjob_agent.workers.log_dir import WorkerLogs
from elasticjob_agent.workers.output import Output, filter_lines
from elasticjob_api import log_layout
from elasticjob_api.rendezvous_state import Member

FILES = WorkerLogs(Path("/logs/round_1/2"))


def place(nproc: int) -> Assignment:
    """Return the assignment of the second of two nodes, with ranks from 2."""
    return Assignment(
        round=1,
        nonce="00000000",
        member=Member(0, "0000000a"),
        group_rank=1,
        group_world_size=2,
        nproc=nproc,
        base_rank=2,
        world_size=4,
        role="trainer",
        role_base_rank=2,
        role_world_size=4,
        master_addr="10.0.0.1",
        master_port=1,
        restart_count=0,
    )


def output(redirects: str = "0", tee: str = "0", shown: str = "", template: str | None = None) -> Output:
    return Output(
        redirects=values.parse_streams("redirects", redirects),
        tee=values.parse_streams("tee", tee),
        console_ranks=values.parse_ranks("local-ranks-filter", shown),
        prefix_template=template,
    )


def console(data: bytes) -> None:
    raise AssertionError(data)


@pytest.mark.parametrize(
    ("made", "nproc", "kind"),
    [
        pytest.param(output(), 1, Inherit, id="a single worker has the console itself"),
        pytest.param(output(), 2, LineSink, id="several have prefixes"),
        pytest.param(output(redirects="1"), 1, FileSink, id="redirected"),
        pytest.param(output(redirects="2"), 1, Inherit, id="only stderr is redirected"),
        pytest.param(output(tee="1"), 1, LineSink, id="teed"),
        pytest.param(output(redirects="3", tee="3"), 1, LineSink, id="tee takes precedence over redirects"),
        pytest.param(output(shown="1"), 2, Null, id="not shown"),
        pytest.param(output(tee="3", shown="1"), 2, FileSink, id="teed and not shown"),
        pytest.param(output(redirects="1:3"), 2, LineSink, id="another rank is redirected"),
    ],
)
def test_stdout_of_local_rank_0_has_its_destination(made: Output, nproc: int, kind: type) -> None:
    assert isinstance(made.stdout(place(nproc), 0, FILES, console), kind)


def received(made: Output, line: bytes) -> tuple[bytes, bytes]:
    """Return the bytes that console and tail get of a line of stderr."""
    shown, tail = bytearray(), bytearray()
    sink = made.stderr(place(2), 0, FILES, shown.extend, tail.extend)
    assert isinstance(sink, LineSink)
    sink.write(line)
    return bytes(shown), bytes(tail)


@pytest.mark.parametrize(
    ("made", "is_shown"),
    [
        (output(), True),
        (output(redirects="2"), False),
        (output(redirects="1"), True),
        (output(redirects="2", tee="2"), True),
        (output(shown="1"), False),
    ],
)
def test_stderr_always_passes_the_agent(made: Output, *, is_shown: bool) -> None:
    assert received(made, b"oh\n") == (b"oh\n" if is_shown else b"", b"oh\n")


def test_lines_begin_with_the_rank_of_several_workers_or_with_tee() -> None:
    assert output().prefix(place(2), 1) == b"[rank3] "
    assert output().prefix(place(1), 0) == b""
    assert output(tee="3").prefix(place(1), 0) == b"[rank2] "


def test_the_prefix_may_be_given_as_torchruns_template() -> None:
    made = output(template="[${role_name} ${rank}/${local_rank} ${other}]: ")
    assert made.prefix(place(2), 1) == b"[trainer 3/1 ${other}]: "


def test_a_template_in_a_pod_comes_after_the_rank() -> None:
    made = Output(prefix_template="[${role_name}]: ", keeps_rank=True)
    prefix = made.prefix(place(2), 1).decode()
    assert prefix == "[rank3] [trainer]: "
    assert log_layout.split_line(f"{prefix}loss 0.1") == (3, "[trainer]: loss 0.1")


def test_a_template_of_the_command_line_is_in_front_of_the_lines_of_a_single_worker_too() -> None:
    assert output(template="x ").prefix(place(1), 0) == b"x "


def test_a_template_in_a_pod_does_not_change_the_lines_of_a_single_worker() -> None:
    assert Output(prefix_template="x ", keeps_rank=True).prefix(place(1), 0) == b""


def test_lines_with_a_wanted_word_are_copied(tmp_path: Path) -> None:
    shown = bytearray()
    write = filter_lines(tmp_path / "filtered.log", ("loss", "a,b"), shown.extend)
    write(b"loss 1\nnoise\n")
    write(b"x a,b\nnoise\n")
    assert (tmp_path / "filtered.log").read_bytes() == b"loss 1\nx a,b\n"
    assert bytes(shown) == b"loss 1\nnoise\nx a,b\nnoise\n"


@pytest.mark.parametrize(
    ("made", "wanted"), [(output(), False), (output(tee="0:1"), True), (output(redirects="3"), True)]
)
def test_files_are_wanted_if_an_option_asks_for_them(made: Output, *, wanted: bool) -> None:
    assert made.wants_files is wanted
