"""Commands as workers: both call forms, arguments and environment, start errors, exit codes, simultaneous failures."""

import errno
import os
import signal
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from elasticjob_agent.multiprocessing import (
    DefaultLogsSpecs,
    LogsDest,
    LogsSpecs,
    PContext,
    Std,
    SubprocessContext,
    start_processes,
)
from testing.waiting import eventually
from tests.integration.multiprocessing import functions
from tests.integration.multiprocessing.conftest import Start


def _wait(context: PContext) -> Any:
    result = context.wait(60)
    assert result is not None
    return result


def _out(context: PContext, rank: int = 0) -> str:
    return Path(context.stdouts[rank]).read_text()


def _sh(*scripts: str) -> dict[int, tuple[str, str]]:
    return {rank: ("-c", script) for rank, script in enumerate(scripts)}


def _mkdir(path: Path) -> str:
    path.mkdir()
    return str(path)


def test_b_001_01_both_forms_give_the_same_run(tmp_path: Path) -> None:
    args, envs = {0: ("a",)}, {0: {"X": "1"}}
    new = DefaultLogsSpecs(str(tmp_path / "new"), redirects=Std.OUT)
    calls: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
        ((_mkdir(tmp_path / "a"), "spawn", Std.OUT, Std.NONE), {}),
        ((), {"log_dir": _mkdir(tmp_path / "b"), "redirects": Std.OUT}),
        ((new, None, "spawn"), {}),
        ((), {"logs_specs": DefaultLogsSpecs(str(tmp_path / "new2"), redirects=Std.OUT)}),
    ]
    contexts = [start_processes("w", "echo", args, envs, *more, **options) for more, options in calls]
    assert [_wait(context).return_values for context in contexts] == [{0: None}] * 4
    assert [_out(context) for context in contexts] == ["a\n"] * 4
    assert contexts[0].stdouts == {0: str(tmp_path / "a" / "0" / "stdout.log")}
    assert contexts[0].error_files == {0: str(tmp_path / "a" / "0" / "error.json")}
    assert "attempt_0" in contexts[2].stdouts[0]


def test_b_001_02_and_k_001_05_mixed_forms_and_none(tmp_path: Path) -> None:
    specs = DefaultLogsSpecs(str(tmp_path))
    for options in (
        {},
        {"redirects": Std.OUT},
        {"logs_specs": specs, "tee": Std.OUT},
        {"logs_specs": specs, "log_dir": "/x"},
        {"log_dir": str(tmp_path), "nprocs": 1},
        {"log_dir": str(tmp_path), "tees": Std.OUT},
        {"logs_specs": 3},
    ):
        with pytest.raises(TypeError):
            start_processes("w", "true", {0: ()}, {0: {}}, **options)
    with pytest.raises(TypeError, match="two values"):
        start_processes("w", "true", {0: ()}, {0: {}}, str(tmp_path), log_dir=str(tmp_path))


@pytest.mark.parametrize("entrypoint", [None, 3, b"true", ["true"]])
def test_b_001_02_a_wrong_entrypoint(start: Start, entrypoint: Any) -> None:
    with pytest.raises(TypeError, match="entrypoint"):
        start(entrypoint, {0: ()})


def test_b_001_03_the_log_dir_is_checked_first(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    full = tmp_path / "full"
    full.mkdir()
    (full / "x").touch()
    for log_dir, error in (
        (tmp_path / "no", FileNotFoundError),
        (tmp_path / "file", NotADirectoryError),
        (full, RuntimeError),
    ):
        with pytest.raises(error, match="log_dir"):
            start_processes("w", "true", {5: ()}, {0: {}}, log_dir=str(log_dir))
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["file", "full", "x"]


BAD_KEYS: list[tuple[dict[Any, Any], dict[Any, Any], str]] = [
    ({0: (), 1: ()}, {0: {}}, "envs"),
    ({0: ()}, {0: {}, 1: {}}, "envs"),
    ({1: ()}, {1: {}}, "args"),
    ({0: (), 2: ()}, {0: {}, 2: {}}, "args"),
    ({-1: (), 0: ()}, {-1: {}, 0: {}}, "args"),
    ({"0": ()}, {"0": {}}, "args"),
]


@pytest.mark.parametrize(("args", "envs", "what"), BAD_KEYS)
def test_b_001_04_wrong_keys(tmp_path: Path, args: dict[Any, Any], envs: dict[Any, Any], what: str) -> None:
    with pytest.raises(RuntimeError, match=rf"{what}.*expected .*actual"):
        start_processes("w", "true", args, envs, log_dir=str(tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_b_001_05_streams_by_value_and_by_rank(start: Start) -> None:
    context = start(
        "sh", _sh(*["echo out; echo err >&2"] * 3), redirects={0: Std.OUT, 1: Std.ERR}, tee={2: Std.OUT, 0: Std.ERR}
    )
    _wait(context)
    assert {rank: bool(path) for rank, path in context.stdouts.items()} == {0: True, 1: False, 2: True}
    assert {rank: bool(path) for rank, path in context.stderrs.items()} == {0: True, 1: True, 2: False}
    assert (_out(context, 0), Path(context.stderrs[0]).read_text()) == ("out\n", "err\n")


def test_b_001_06_and_b_001_09_arguments_arrive_verbatim(start: Start) -> None:
    context = start("echo", {0: (1, 2, [1, 2, 3])}, redirects=Std.OUT)
    _wait(context)
    assert _out(context) == "1 2 [1, 2, 3]\n"
    words = ("", "a b", "'\"", "$HOME", "x\ny")
    context = start("printf", {0: ("[%s]", *words), 1: ("-",)}, redirects=Std.OUT)
    _wait(context)
    assert _out(context) == "".join(f"[{word}]" for word in words)
    assert _wait(start("true", {0: ()})).return_values == {0: None}


def test_b_001_07_and_k_001_01_a_bare_string_is_one_argument(start: Start) -> None:
    context = start("echo", {0: "hello"}, redirects=Std.OUT)
    _wait(context)
    assert _out(context) == "hello\n"
    assert _wait(start(functions.echo, {0: "hello"}, start_method="fork")).return_values == {0: "hello"}


def test_b_001_08_variables_that_are_no_strings(start: Start) -> None:
    context = start("sh", _sh("echo $X"), {0: {"X": 0}}, redirects=Std.OUT)
    _wait(context)
    assert _out(context) == "0\n"
    assert _wait(start(functions.variable, {0: ("X",)}, {0: {"X": 0}}, start_method="fork")).return_values == {0: "0"}


def test_b_001_08_no_variables_at_all(tmp_path: Path) -> None:
    assert _wait(start_processes("w", "true", {0: ()}, envs=None, log_dir=str(tmp_path))).return_values == {0: None}


def test_b_001_10_and_k_001_02_environments(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINE", "parent")
    monkeypatch.setenv("KEPT", "parent")
    shared = {"MINE": "worker"}
    before = dict(os.environ)
    context = start(
        "sh", _sh(*["echo $MINE $KEPT $TORCHELASTIC_ERROR_FILE"] * 2), {0: shared, 1: shared}, redirects=Std.OUT
    )
    _wait(context)
    assert [_out(context, rank).split() for rank in (0, 1)] == [
        ["worker", "parent", context.error_files[r]] for r in (0, 1)
    ]
    assert shared == {"MINE": "worker"}
    assert dict(os.environ) == before


START_ERRORS: list[tuple[str, tuple[Any, ...], type[Exception], int | None]] = [
    ("no-such-command", (), FileNotFoundError, errno.ENOENT),
    ("{tmp}/plain", (), PermissionError, errno.EACCES),
    ("{tmp}", (), PermissionError, errno.EACCES),
    ("{tmp}/garbage", (), OSError, errno.ENOEXEC),
    ("", (), OSError, None),
    ("echo", ("a\0b",), ValueError, None),
]


@pytest.mark.parametrize("case", START_ERRORS)
def test_b_001_11_a_command_that_cannot_start(
    start: Start, tmp_path: Path, case: tuple[str, tuple[Any, ...], type[Exception], int | None]
) -> None:
    command, args, kind, code = case
    (tmp_path / "plain").write_text("#!/bin/sh\n")
    (tmp_path / "garbage").write_bytes(b"\x00\x01")
    (tmp_path / "garbage").chmod(0o755)
    with pytest.raises(kind) as caught:
        start(command.format(tmp=tmp_path), {0: args})
    assert code is None or getattr(caught.value, "errno", None) == code


def test_b_001_12_and_k_000_09_and_k_001_04_only_the_last_cannot_start(start: Start, tmp_path: Path) -> None:
    """The PATH of each rank decides: three of four have the command."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "own").write_text("#!/bin/sh\nsleep 600\n")
    (tmp_path / "bin" / "own").chmod(0o755)
    good = {"PATH": f"{tmp_path}/bin:/bin:/usr/bin"}
    with pytest.raises(FileNotFoundError):
        start("own", dict.fromkeys(range(4), ()), {0: good, 1: good, 2: good, 3: {"PATH": "/nowhere"}})


def test_b_001_13_a_command_is_found_on_the_workers_path(start: Start, tmp_path: Path) -> None:
    (tmp_path / "own").write_text("#!/bin/sh\nexit 0\n")
    (tmp_path / "own").chmod(0o755)
    assert not _wait(start("own", {0: ()}, {0: {"PATH": f"{tmp_path}:/bin"}})).is_failed()


RECORDED = """
from elasticjob_agent.multiprocessing.errors import record
@record
def main():
    raise ValueError("recorded")
main()
"""


def test_b_001_14_a_python_command_leaves_an_error_file_if_it_is_decorated(start: Start) -> None:
    context = start(sys.executable, {0: ("-c", RECORDED), 1: ("-c", "import time; time.sleep(600)")}, redirects=Std.ALL)
    failure = _wait(context).failures[0]
    assert failure.message["message"] == "ValueError: recorded"
    failure = _wait(start(sys.executable, {0: ("-c", "raise ValueError")}, redirects=Std.ALL)).failures[0]
    assert (failure.error_file, failure.exitcode) == ("<N/A>", 1)


def test_b_001_15_a_failed_worker_and_a_stopped_one(start: Start) -> None:
    context = start("sh", _sh("echo oops >&2; exit 138", "sleep 600"), redirects=Std.ERR)
    failures = _wait(context).failures
    assert {rank: (each.exitcode, each.stopped_by_us) for rank, each in failures.items()} == {
        0: (138, False),
        1: (-15, True),
    }
    assert Path(context.stderrs[0]).read_text() == "oops\n"


@pytest.mark.parametrize(
    ("script", "code", "text"),
    [
        ("kill -SEGV $$", -11, "SIGSEGV"),
        ("kill -9 $$", -9, "SIGKILL"),
        ("exit 137", 137, "exit code 137"),
    ],
)
def test_b_001_16_signals_are_named_and_exit_codes_are_not_signals(
    start: Start, script: str, code: int, text: str
) -> None:
    failure = _wait(start("sh", _sh(script))).failures[0]
    assert failure.exitcode == code
    assert text in failure.message


def test_b_001_17_two_failures_in_the_same_instant(start: Start, tmp_path: Path) -> None:
    go = tmp_path / "go"
    context = start("sh", _sh(*[f"while ! [ -e {go} ]; do sleep 0.01; done; exit 3"] * 2))
    context.settle_s = 20
    go.touch()
    assert {rank: each.stopped_by_us for rank, each in _wait(context).failures.items()} == {0: False, 1: False}


def test_b_001_18_success(start: Start) -> None:
    result = _wait(start("true", {0: (), 1: ()}))
    assert (result.return_values, result.stdouts, result.stderrs) == (
        {0: None, 1: None},
        {0: "", 1: ""},
        {0: "", 1: ""},
    )


def test_b_001_19_no_stdout_and_no_stdin(start: Start) -> None:
    context = start("sh", _sh("exec >&- 2>&-; exit 0", "cat; echo end"), redirects=Std.OUT)
    assert not _wait(context).is_failed()
    assert _out(context, 1) == "end\n"


@pytest.mark.parametrize("entrypoint", ["true", functions.nothing])
def test_b_001_20_no_workers(start: Start, entrypoint: Any) -> None:
    context = start(entrypoint, {})
    result = context.wait(0)
    assert result
    assert (result.is_failed(), result.return_values, context.pids()) == (False, {}, {})


def test_b_001_20_two_hundred_commands(start: Start) -> None:
    assert len(_wait(start("true", dict.fromkeys(range(200), ()))).return_values) == 200


def test_b_001_24_two_contexts_at_once(start: Start) -> None:
    first, second = (start("sh", _sh("echo ready; exec sleep 600"), redirects=Std.OUT) for _ in range(2))
    for context in (first, second):
        eventually(partial(_out, context), within_s=20)
    first.close()
    assert second.wait(0) is None
    assert Path(f"/proc/{second.pids()[0]}").exists()
    failure = first.wait(0)
    assert failure
    assert failure.failures[0].stopped_by_us


def test_k_001_07_the_context_has_the_grace_after_a_failure(start: Start, tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    scripts = (
        f"while ! [ -e {ready} ]; do sleep 0.01; done; exit 1",
        f"trap '' TERM; touch {ready}; while :; do sleep 600; done",
    )
    context = start("sh", _sh(*scripts))
    assert context.failure_grace_s == 30
    context.failure_grace_s = 0.05
    assert _wait(context).failures[1].exitcode == -signal.SIGKILL


class _OwnSpecs(LogsSpecs):
    """Omits the ranks of one map, and adds a variable."""

    def __init__(self, omitted: str) -> None:
        super().__init__()
        self.omitted = omitted

    @property
    def root_log_dir(self) -> str:
        return "/"

    def reify(self, envs: dict[int, dict[str, str]]) -> LogsDest:
        dest = LogsDest({0: ""}, {0: ""})
        for env in envs.values():
            env["ADDED"] = "5"
        if self.omitted:
            getattr(dest, self.omitted).clear()
        return dest


@pytest.mark.parametrize("what", ["stdouts", "stderrs"])
def test_b_000_10_destinations_without_a_rank_raise(what: str) -> None:
    with pytest.raises(RuntimeError, match=what):
        start_processes("w", "true", {0: ()}, {0: {}}, _OwnSpecs(what))


def test_b_000_10_and_b_000_11_own_destinations(start: Start) -> None:
    result = _wait(start("sh", _sh("exit $ADDED"), logs_specs=_OwnSpecs("")))
    assert (result.failures[0].exitcode, result.failures[0].error_file) == (5, "<N/A>")


def test_commands_have_no_pids_before_the_start(tmp_path: Path) -> None:
    context = SubprocessContext("w", "true", {0: ()}, {0: {}}, DefaultLogsSpecs(str(tmp_path)))
    assert (context.pids(), context.subprocess_handlers, context.wait(0)) == ({}, {}, None)
    context.start()
    assert list(context.subprocess_handlers) == [0]
    assert context.subprocess_handlers[0].proc.pid == context.pids()[0]
    assert _wait(context).return_values == {0: None}
