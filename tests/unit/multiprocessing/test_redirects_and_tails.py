"""Redirection of our own streams, following of files, and the handler of one process."""

import io
import os
import signal
import sys
import threading
from contextlib import nullcontext, suppress
from pathlib import Path

import pytest

from elasticjob_agent.multiprocessing.api import IS_MACOS, IS_WINDOWS, get_std_cm
from elasticjob_agent.multiprocessing.redirects import redirect, redirect_stderr, redirect_stdout
from elasticjob_agent.multiprocessing.subprocess_handler import SubprocessHandler, get_subprocess_handler
from elasticjob_agent.multiprocessing.tail_log import TailLog, tail_logfile
from testing.waiting import eventually


def test_b_000_52_only_the_two_streams_are_known(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="stdfoo"), redirect("stdfoo", str(tmp_path / "x")):
        pass


def test_b_000_52_nested_and_restored_after_an_exception(tmp_path: Path) -> None:
    out, err = tmp_path / "out", tmp_path / "err"
    out.write_text("old")
    identities = [os.fstat(fd).st_ino for fd in (1, 2)]
    with suppress(LookupError), redirect_stdout(str(out)), redirect_stderr(str(err)):
        print("printed")
        os.system("echo shell; echo shell-err >&2")
        print("printed-err", file=sys.stderr)
        raise LookupError
    assert out.read_text() == "printed\nshell\n" or sorted(out.read_text().split()) == ["printed", "shell"]
    assert sorted(err.read_text().split()) == ["printed-err", "shell-err"]
    assert [os.fstat(fd).st_ino for fd in (1, 2)] == identities


def test_the_choice_of_the_context_manager(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not IS_WINDOWS
    assert not IS_MACOS
    marker = nullcontext()
    assert get_std_cm("path", lambda _: marker) is marker
    assert get_std_cm("", lambda _: marker) is not marker
    monkeypatch.setattr("elasticjob_agent.multiprocessing.api.IS_MACOS", True)
    assert get_std_cm("path", lambda _: marker) is not marker


def test_b_000_51_many_files_arrive_whole(tmp_path: Path) -> None:
    files = {rank: str(tmp_path / str(rank)) for rank in range(32)}
    dst = io.StringIO()
    tail = TailLog("w", files, dst, interval_sec=0.01).start()
    for rank, path in files.items():
        Path(path).write_text("".join(f"{rank}.{number}\n" for number in range(1000)))
    tail.stop()
    assert tail.stopped()
    lines = dst.getvalue().splitlines()
    assert sorted(lines) == sorted(f"[w{rank}]:{rank}.{number}" for rank in files for number in range(1000))


def test_b_000_51_without_files_or_with_files_that_are_never_created(tmp_path: Path) -> None:
    for files in ({}, {0: str(tmp_path / "never")}):
        tail = TailLog("w", files, io.StringIO())
        assert tail.start() is tail
        assert not tail.stopped()
        tail.stop()


def test_there_is_no_thread_without_files(tmp_path: Path) -> None:
    assert TailLog("w", {}, io.StringIO()).start()._threadpool is None
    tail = TailLog("w", {0: str(tmp_path / "0")}, io.StringIO()).start()
    assert tail._threadpool is not None
    tail.stop()


def test_b_000_51_a_directory_costs_one_error(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "1").write_text("line\n")
    dst = io.StringIO()
    tail = TailLog("w", {0: str(tmp_path), 1: str(tmp_path / "1")}, dst, {1: "> "}, interval_sec=0.01).start()
    eventually(lambda: dst.getvalue() == "> line\n")
    tail.stop()
    assert caplog.text.count("cannot follow") == 1


def test_b_000_51_filter_and_path(tmp_path: Path) -> None:
    (tmp_path / "0").write_text("keep\ndrop\nkeep too")
    target = tmp_path / "target"
    TailLog("w", {0: str(tmp_path / "0")}, str(target), log_line_filter=lambda line: "keep" in line).start().stop()
    assert target.read_text() == "[w0]:keep\n[w0]:keep too\n"


def test_one_file(tmp_path: Path) -> None:
    (tmp_path / "0").write_text("a\rb\n")
    dst, finished = io.StringIO(), threading.Event()
    finished.set()
    tail_logfile("> ", str(tmp_path / "0"), dst, finished, 0.01)
    assert dst.getvalue() == "> a\n> b\n"


def test_a_handler_by_itself(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.write_text("before\n")
    handler = get_subprocess_handler(
        "sh", ("-c", "echo $X; exec sleep 600"), {"X": "1", "RANK": "5"}, str(out), None, 3
    )
    assert isinstance(handler, SubprocessHandler)
    eventually(lambda: out.read_text() == "before\n1\n", within_s=20)
    handler.close(signal.SIGKILL)
    assert handler.proc.wait() == -signal.SIGKILL
    handler.close()
    assert (handler.local_rank_id, handler.global_rank) == (3, 5)
