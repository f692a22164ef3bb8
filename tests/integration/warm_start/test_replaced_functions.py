"""An import replaces functions of Python that a worker needs on its way to the script: each script runs once a rank."""

from collections.abc import Callable

import pytest

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
    ],
    ids=lambda names: names[0],
)
async def test_an_import_that_replaces_functions_changes_no_start(
    node: WarmNode, sentences: Sentences, names: list[str], function: str
) -> None:
    lines = "\n".join(f"{name} = {function}" for name in names)
    node.package("replaces", f"import fcntl, os, select, signal\n{lines}")
    node.script("import decimal, replaces")
    await node.start()
    await node.ran()
    await node.forked_ahead()
    assert await node.restart() == [True, True], node.starter.reason
    await node.ran()
    assert sentences() == []
