"""An import replaces functions of Python that a worker needs on its way to the script: each script runs once a rank."""

from collections.abc import Callable

import pytest

from testing.waiting import aeventually
from tests.integration.warm_start.warm_node import WarmNode

Sentences = Callable[[], list[str]]

_NOTHING = "lambda *_, **__: 0"
_RAISES = "lambda *_, **__: 1 / 0"


@pytest.mark.parametrize("function", [_NOTHING, _RAISES])
@pytest.mark.parametrize(
    "names",
    [
        ["os.write"],
        ["os.read", "os.setsid", "os.chdir", "os.sched_setaffinity", "os.getppid"],
        ["os.close", "os.dup2", "os.open", "fcntl.fcntl"],
        ["os._exit", "os.fork", "os.waitpid", "os.sched_getaffinity", "select.select"],
        ["signal.pthread_sigmask", "signal.sigtimedwait", "signal.valid_signals"],
        ["time.monotonic", "json.dumps", "json.loads"],
    ],
    ids=lambda names: names[0],
)
async def test_an_import_that_replaces_functions_changes_no_start(
    node: WarmNode, sentences: Sentences, names: list[str], function: str
) -> None:
    lines = "\n".join(f"{name} = {function}" for name in names)
    node.package("replaces", f"import fcntl, json, os, select, signal, time\n{lines}")
    node.script("import decimal, replaces")
    await node.start()
    await node.ran()
    await node.forked_ahead()
    assert await node.restart() == [True, True], node.starter.reason
    await node.ran()
    assert sentences() == []


_ANSWERS_EARLY = """
import socket
original = socket.socket.send
def send(link, data):
    sent = original(link, data)
    if data == b"ready":
        original(link, {answer!r})
    return sent
socket.socket.send = send
"""


@pytest.mark.parametrize("answer", [b"ok", b"nonsense", b"9999999999999999999999 cwd", b"2 exec"])
async def test_a_waiting_worker_that_answers_before_its_command_is_a_cold_start(
    node: WarmNode, sentences: Sentences, caplog: pytest.LogCaptureFixture, answer: bytes
) -> None:
    node.package("answers", _ANSWERS_EARLY.format(answer=answer))
    node.script("import decimal, answers")
    await node.start()
    await node.ran()
    await aeventually(lambda: node.starter._zygote.ready, what="a zygote")
    await node.settled()
    assert await node.restart() == [False, False]
    await node.ran()
    assert sentences() == ["not warm: a worker that was forked ahead: its answer was not understood"]
    assert [record for record in caplog.records if record.levelname == "ERROR"] == []
