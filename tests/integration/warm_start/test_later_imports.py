"""Imports that come long after the first ones, as those of DDP after the data were read."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from elasticjob_agent.host.memory import MemoryUsage
from elasticjob_agent.host.oom import OomCounter
from elasticjob_agent.warm_start.memory_monitor import MemoryMonitor
from testing.waiting import aeventually
from tests.integration.warm_start.conftest import MakeNode
from tests.integration.warm_start.warm_node import WarmNode

Sentences = Callable[[], list[str]]

_MANY = 60
_SCRIPT = """
import sys
import decimal
print("value", os.environ["ROUND"], "many.m1" in sys.modules, flush=True)
while not os.path.exists({go!r}): time.sleep(0.01)
import many, {also}
print("late", flush=True)
"""


def _later(node: WarmNode, also: str = "colorsys") -> Path:
    """Write a script that imports many modules, and another one, when the returned file exists."""
    folder = node.packages / "many"
    folder.mkdir()
    names = [f"m{i}" for i in range(_MANY)]
    for name in names:
        (folder / f"{name}.py").touch()
    (folder / "__init__.py").write_text(f"from . import {', '.join(names)}")
    go = node.folder / "go"
    node.script(_SCRIPT.format(go=str(go), also=also))
    return go


async def _first_zygote(node: WarmNode) -> int:
    await node.start()
    await node.ran()
    await node.forked_ahead()
    return node.zygote()


async def test_later_imports_are_done_ahead_in_the_next_round(node: WarmNode, sentences: Sentences) -> None:
    go = _later(node)
    first = await _first_zygote(node)
    go.touch()
    await aeventually(lambda: node.starter._zygote.ready and node.zygote() != first, what="another zygote")
    await node.forked_ahead()
    assert await node.restart() == [True, True]
    await aeventually(lambda: node.values() == ["True"] * 2, what="the later imports")
    assert sentences() == []


async def test_later_imports_that_a_fork_would_get_wrong_leave_the_earlier_zygote(
    node: WarmNode, sentences: Sentences, caplog: pytest.LogCaptureFixture
) -> None:
    node.package("trap", "import os\nos.chdir('/')")
    go = _later(node, also="trap")
    first = await _first_zygote(node)
    go.touch()
    reason = "warm start: each worker does the later imports itself: an import changes the working directory"
    await aeventually(lambda: reason in caplog.text, what="the reason")
    assert node.zygote() == first
    for _ in range(2):
        assert await node.restart() == [True, True]
        await aeventually(lambda: node.values() == ["False"] * 2, what="values of the earlier zygote")
        await node.forked_ahead()
    assert sentences() == []


async def test_a_round_during_the_second_build_is_warm(node: WarmNode, sentences: Sentences) -> None:
    mark = node.folder / "mark"
    node.package("slow", f"import os, sys, time\nwhile os.path.exists({str(mark)!r}): time.sleep(0.01)\n")
    go = _later(node, also="slow")
    first = await _first_zygote(node)
    go.touch()
    await aeventually(lambda: node.console.lines.count("late") == node.nproc, what="the later imports")
    mark.touch()
    await aeventually(lambda: node.starter._zygote.is_building, what="the second build")
    assert await node.restart() == [True, True]
    mark.unlink()
    await aeventually(lambda: node.starter._zygote.ready and node.zygote() != first, what="another zygote")
    await node.forked_ahead()
    assert await node.restart() == [True, True]
    await aeventually(lambda: node.values() == ["True"] * 2, what="the later imports")
    assert sentences() == []


async def test_no_zygote_is_left_when_memory_becomes_short_in_the_second_build(make_node: MakeNode) -> None:
    gib = 1 << 30
    left = [MemoryUsage(total=8 * gib, left=4 * gib)]
    node = make_node(memory=MemoryMonitor(OomCounter(None), lambda: left[-1]))
    mark = node.folder / "mark"
    node.package("slow", f"import os, sys, time\nwhile os.path.exists({str(mark)!r}): time.sleep(0.01)\n")
    go = _later(node, also="slow")
    first = await _first_zygote(node)
    waiting = node.waiting()
    go.touch()
    await aeventually(lambda: node.console.lines.count("late") == node.nproc, what="the later imports")
    mark.touch()
    await aeventually(lambda: node.starter._zygote.is_building, what="the second build")
    left.append(MemoryUsage(total=8 * gib, left=gib // 4))
    await aeventually(lambda: not any(Path(f"/proc/{pid}").exists() for pid in [first, *waiting]), what="their end")
    mark.unlink()
    assert node.starter._growth is not None
    await asyncio.wait([node.starter._growth])
    assert node.starter._zygote.ready is None


async def test_nothing_is_left_when_the_agent_ends_during_the_second_build(node: WarmNode) -> None:
    mark = node.folder / "mark"
    node.package("slow", f"import os, sys, time\nwhile os.path.exists({str(mark)!r}): time.sleep(0.01)\n")
    go = _later(node, also="slow")
    await _first_zygote(node)
    go.touch()
    await aeventually(lambda: node.console.lines.count("late") == node.nproc, what="the later imports")
    mark.touch()
    await aeventually(lambda: node.starter._zygote.is_building, what="the second build")
    await node.starter.close()
    assert node.starter._zygote.ready is None
