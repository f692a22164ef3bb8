"""Each row of the decision table: the script runs once a rank, warm or cold, and the log has the reason once."""

import os
import venv
from collections.abc import Callable

import pytest

from testing.waiting import aeventually
from tests.integration.warm_start.warm_node import WarmNode

Sentences = Callable[[], list[str]]


async def test_a_restart_is_warm(node: WarmNode, sentences: Sentences) -> None:
    node.script()
    assert await node.start() == [False, False]
    assert node.starter.reason == "the first workers record their imports"
    await node.ran()
    await node.forked_ahead()
    for _ in range(3):
        assert await node.restart() == [True, True]
        await node.ran()
        await node.forked_ahead()
    assert (node.starter.reason, sentences()) == ("", [])


async def test_a_worker_that_is_bound_to_processors_starts_cold(node: WarmNode, sentences: Sentences) -> None:
    node.script()
    await node.start()
    await node.ran()
    await node.forked_ahead()
    node.cpus = frozenset({min(os.sched_getaffinity(0))})
    assert await node.restart() == [False, False]
    await node.ran()
    assert [os.sched_getaffinity(child.pid) for child in node.children] == [node.cpus] * 2
    assert sentences() == [
        "not warm: it is bound to processors, by which libraries choose their threads when they are imported"
    ]


_INTERPRETERS = {
    "import os; os.confstr = lambda name: 'musl 1.2'": "only glibc has been tested",
    "import sys; sys.setprofile(lambda *_: None)": "a debugger or coverage tool is active before the script begins",
    "sys.version_info = (3, 14, 0)": "Python 3.14.0 has not been tested",
    "sys.implementation.name = 'other'": "only usual builds of CPython have been tested",
}


@pytest.mark.parametrize("code", _INTERPRETERS)
async def test_an_interpreter_that_was_not_tested_starts_cold(node: WarmNode, sentences: Sentences, code: str) -> None:
    """A `.pth` file makes this one look like another one."""
    venv.create(node.folder / "venv", symlinks=True)
    [packages] = (node.folder / "venv").glob("lib/python*/site-packages")
    (packages / "other.pth").write_text(f"import sys; exec({code!r})\n")
    words = [node.folder / "venv" / "bin" / "python", node.script()]
    await node.start(*words)
    await node.ran()
    await aeventually(lambda: node.starter._reasons.refusal or node.starter._zygote.ready, what="a decision")
    for _ in range(2):
        assert await node.restart(*words) == [False, False]
        await node.ran()
    assert sentences() == [f"not warm: {_INTERPRETERS[code]}"]
