"""Function workers: every start method, every way to end, nothing left and nothing hung."""

import os
import signal
from collections.abc import AsyncIterator
from multiprocessing import get_context, resource_tracker
from pathlib import Path
from typing import Any

import pytest

from elasticjob_agent.supervisor import (
    START_METHODS,
    ForkServerLost,
    Function,
    FunctionChild,
    FunctionOutcome,
    Inherit,
    Null,
    Sink,
    StartError,
    Supervisor,
    spawn_functions,
    stop_functions,
)
from testing.processes.census import MARKER, Census
from tests.integration.supervisor import functions

End = tuple[int, FunctionOutcome | None]


class Runner:
    """Starts functions and waits for their ends."""

    def __init__(self, supervisor: Supervisor, token: str) -> None:
        self._supervisor = supervisor
        self.env = {"PATH": os.environ["PATH"], MARKER: token}
        self.started: list[FunctionChild] = []

    async def start(self, method: str, *calls: tuple[Any, ...], stderr: Sink | None = None) -> list[FunctionChild]:
        all_functions = [
            Function(
                name=f"f{number}",
                fn=fn,
                args=tuple(args),
                env=self.env,
                stdout=Inherit(),
                stderr=stderr or Null(),
                silent=True,
            )
            for number, (fn, *args) in enumerate(calls)
        ]
        children = await spawn_functions(self._supervisor, all_functions, method)
        self.started += children
        return children

    async def run(self, method: str, *calls: tuple[Any, ...]) -> list[End]:
        children = await self.start(method, *calls)
        return [((await child.exit).code, await child.outcome) for child in children]


@pytest.fixture
async def runner(supervisor: Supervisor, census: Census) -> AsyncIterator[Runner]:
    runner = Runner(supervisor, census.token)
    yield runner
    await stop_functions(runner.started, grace_s=0)


ENDS = [
    ((functions.echo, 7), 0, "V"),
    ((functions.echo, None), 0, "V"),
    ((functions.fail, "no"), 1, "R"),
    ((functions.leave, None), 0, "X"),
    ((functions.leave, 77), 77, "X"),
    ((functions.leave, -1), 255, "X"),
    ((functions.leave, 256), 0, "X"),
    ((functions.leave, "text"), 1, "X"),
    ((functions.interrupt,), -signal.SIGINT, "K"),
    ((functions.kill_self, signal.SIGKILL), -signal.SIGKILL, None),
    ((functions.kill_self, signal.SIGRTMIN + 1), -signal.SIGRTMIN - 1, None),
    ((functions.unpicklable,), 1, "U"),
    ((functions.big, 10_000_000), 0, "V"),
]


@pytest.mark.parametrize("method", START_METHODS)
async def test_every_way_to_end_is_reported(runner: Runner, method: str) -> None:
    ends = await runner.run(method, *(call for call, _, _ in ENDS))
    assert [(code, outcome and outcome.kind) for code, outcome in ends] == [(code, kind) for _, code, kind in ENDS]
    values = [outcome.value() for _, outcome in ends if outcome and outcome.is_value]
    assert values == [7, None, b"x" * 10_000_000]


@pytest.mark.parametrize("method", START_METHODS)
async def test_a_function_has_clean_surroundings(runner: Runner, method: str, monkeypatch: Any) -> None:
    monkeypatch.setenv("ONLY_OF_THE_PARENT", "1")
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - nothing can block here
    [(code, outcome)] = await runner.run(method, (functions.surroundings,))
    assert (code, outcome is not None) == (0, True)
    found = outcome.value() if outcome else {}
    assert {key: found[key] for key in ("session", "sigint", "sigterm", "mask", "stdin")} == {
        "session": True,
        "sigint": True,
        "sigterm": True,
        "mask": [],
        "stdin": "",
    }
    assert "ONLY_OF_THE_PARENT" not in found["env"]
    # 3 is Python's own new stdin. Then come the channel, and the pipe to the standard library's resource tracker if one
    # runs. A fork also has copies of the caller's descriptors.
    tracker = resource_tracker._resource_tracker._fd is not None  # type: ignore[attr-defined]
    assert len(found["fds"]) <= 5 + tracker + (before if method == "fork" else 0)


async def test_the_traceback_of_an_exception_is_reported(runner: Runner) -> None:
    [(_, outcome)] = await runner.run("fork", (functions.fail, "out of cheese"))
    assert outcome
    assert (outcome.describe["type"], outcome.describe["text"]) == ("ValueError", "out of cheese")
    assert outcome.describe["traceback"].endswith("ValueError: out of cheese\n")


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
async def test_an_error_of_pickling_is_raised_in_the_caller(runner: Runner, method: str) -> None:
    with pytest.raises((AttributeError, TypeError), match="pickle"):
        await runner.start(method, (functions.echo, 1), (lambda: None,))


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
async def test_a_function_that_cannot_be_unpickled_never_began(runner: Runner, method: str) -> None:
    [(code, outcome)] = await runner.run(method, (functions.echo, functions.BrokenOnArrival()))
    assert (code, outcome and outcome.kind) == (1, "N")


@pytest.mark.parametrize("method", START_METHODS)
async def test_a_connection_can_be_passed_to_a_function(runner: Runner, method: str) -> None:
    ours, theirs = get_context("spawn").Pipe()
    with ours, theirs:
        [(code, _)] = await runner.run(method, (functions.send, theirs, "hello"))
        assert code == 0
        assert ours.recv() == "hello"


@pytest.mark.parametrize("method", START_METHODS)
async def test_stopping_ends_sleeping_functions(runner: Runner, method: str) -> None:
    children = await runner.start(method, (functions.sleep,), (functions.sleep,))
    await stop_functions(children, grace_s=20)
    assert [(await child.exit).code for child in children] == [-signal.SIGTERM, -signal.SIGTERM]
    runner.started.clear()


async def test_a_function_that_waits_after_its_answer_ends_when_it_is_released(
    supervisor: Supervisor, runner: Runner
) -> None:
    function = Function(
        name="f", fn=functions.echo, args=(3,), env=runner.env, stdout=Null(), stderr=Null(), wait_for_children=True
    )
    [child] = await spawn_functions(supervisor, [function], "fork")
    outcome = await child.outcome
    assert outcome
    assert outcome.value() == 3
    assert not child.exit.done()
    child.release()
    assert (await child.exit).code == 0
    await stop_functions([child], grace_s=0)


async def test_a_preloaded_module_is_imported_before_the_function(supervisor: Supervisor, runner: Runner) -> None:
    function = Function(name="f", fn=functions.echo, args=(1,), env=runner.env, stdout=Null(), stderr=Null())
    children = await spawn_functions(supervisor, [function], "forkserver", preload=["fractions"])
    assert (await children[0].exit).code == 0
    await stop_functions(children, grace_s=0)


async def test_a_module_that_cannot_be_imported_cannot_be_preloaded(supervisor: Supervisor, runner: Runner) -> None:
    function = Function(name="f", fn=functions.echo, args=(1,), env=runner.env, stdout=Null(), stderr=Null())
    with pytest.raises(StartError, match="no_such_module_anywhere"):
        await spawn_functions(supervisor, [function], "forkserver", preload=["no_such_module_anywhere"])


async def test_a_module_that_starts_threads_cannot_be_preloaded(
    supervisor: Supervisor, runner: Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "threaded.py").write_text(
        "import threading; threading.Thread(target=threading.Event().wait, name='odd').start()"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    function = Function(name="f", fn=functions.echo, args=(1,), env=runner.env, stdout=Null(), stderr=Null())
    with pytest.raises(StartError, match=r"threaded there are 2 threads \(odd\)"):
        await spawn_functions(supervisor, [function], "forkserver", preload=["threaded"])


_WRITES = """
import gc, socket
for each in gc.get_objects():
    if isinstance(each, socket.socket):
        each.send({message!r})
"""


@pytest.fixture
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder whose modules each process can import."""
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


@pytest.mark.parametrize("message", [b"nonsense", b"\xff", b"started x y z", b"exited 1 99999999 0 0 0"])
async def test_what_an_import_sends_to_the_agent_is_ignored(
    supervisor: Supervisor,
    runner: Runner,
    modules: Path,
    caplog: pytest.LogCaptureFixture,
    message: bytes,
) -> None:
    (modules / "writes.py").write_text(2 * _WRITES.format(message=message))
    function = Function(name="f", fn=functions.echo, args=(1,), env=runner.env, stdout=Null(), stderr=Null())
    [child] = await spawn_functions(supervisor, [function], "forkserver", preload=["writes"])
    assert (await child.exit).code == 0
    warnings = [record.getMessage() for record in caplog.records if "no message" in record.getMessage()]
    assert [text.partition("preload writes) ")[2] for text in warnings] == [
        f"sent {message!r}, which is no message; it is ignored, as are later ones"
    ]


async def test_a_fork_server_that_died_is_replaced(runner: Runner) -> None:
    [(code, _)] = await runner.run("forkserver", (functions.echo, 1))
    server = runner.started[0].server.supervisor.server_pid
    os.kill(server, signal.SIGKILL)
    [victim] = [await child.exit for child in await _start_until_it_works(runner)]
    assert (code, victim.code) == (0, 0)
    assert runner.started[-1].server.supervisor.server_pid != server


async def _start_until_it_works(runner: Runner) -> list[FunctionChild]:
    try:
        return await runner.start("forkserver", (functions.echo, 1))
    except ForkServerLost:  # its death was not noticed yet
        return await runner.start("forkserver", (functions.echo, 1))
