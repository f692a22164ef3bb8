"""Imports that work, fail or write: the zygote does nothing of it beside the workers that train."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from testing.waiting import aeventually
from tests.integration.warm_start.conftest import MakeNode
from tests.integration.warm_start.shown import SHOW, shown, shown_cold_and_warm
from tests.integration.warm_start.warm_node import FAST, WarmNode

Sentences = Callable[[], list[str]]

_WORKS = """
import os, time, decimal
open(os.path.join({folder!r}, "work-{{}}-{{}}".format(os.environ["ROUND"], os.getpid())), "w").close()
import statistics, wave
while not os.path.exists(os.path.join({folder!r}, "end")): time.sleep(0.01)
"""


async def test_an_installed_package_that_trains_when_it_is_imported_is_not_imported_ahead(node: WarmNode) -> None:
    node.nproc = 1
    node.package("experiment", _WORKS.format(folder=str(node.folder)))
    node.script("import fractions\nimport experiment")
    await node.start()
    await node.forked_ahead()
    assert await node.restart() == [True]
    await aeventually(lambda: len(list(node.folder.glob("work-2-*"))) == 1, what="the work of the second round")
    assert len(list(node.folder.glob("work-*"))) == 2


async def test_an_import_that_has_failed_ahead_leaves_nothing_in_the_worker(
    node: WarmNode, sentences: Sentences
) -> None:
    node.package(
        "registry",
        "names = []\ndef add(name):\n    if name in names: raise ValueError('twice')\n    names.append(name)\n",
    )
    node.package("plugin", "import registry\nregistry.add('plugin')\nvalue = registry.ready\n")
    imports = "import decimal, registry\nregistry.ready = 1\nimport plugin, fractions"
    cold, warm = await shown_cold_and_warm(node, imports, "plugin.value, registry.names")
    assert warm == cold
    assert sentences() == ["not preloaded: plugin (raises AttributeError when it is imported ahead)"]


@pytest.mark.parametrize("mode", ["w", "a", "r+"])
async def test_an_import_ahead_writes_no_file_of_a_worker(node: WarmNode, sentences: Sentences, mode: str) -> None:
    node.nproc = 1
    log = node.work / "train.log"
    log.write_text("")
    node.package(
        "logs",
        f"import logging\nhandler = logging.FileHandler('train.log', {mode!r})\n"
        "print('begins', file=handler.stream, flush=True)",
    )
    node.script("import decimal, logs, fractions\nprint('trains', file=logs.handler.stream, flush=True)")
    await node.start()
    await node.ran()
    await aeventually(lambda: "trains" in log.read_text(), what="the line of the worker")
    await node.forked_ahead()
    assert log.read_text() == "begins\ntrains\n"
    assert await node.restart() == [True]
    assert sentences() == ["not preloaded: logs (writes a file when it is imported)"]


async def test_a_zygote_that_is_built_again_removes_no_folder_of_a_worker(node: WarmNode) -> None:
    node.nproc = 1
    folder = node.folder / "cache"
    node.package("rank", "import os\nvalue = os.environ['RANK']\n")
    node.package(
        "caches",
        f"import atexit, os, shutil, rank\nos.makedirs({str(folder)!r}, exist_ok=True)\n"
        f"atexit.register(shutil.rmtree, {str(folder)!r})\n",
    )
    node.script("import decimal, caches, fractions")
    await node.start()
    await node.ran()
    await node.forked_ahead()
    assert node.starter._builder._builds == 2
    assert folder.is_dir()


async def test_the_imports_of_a_round_that_was_stopped_meanwhile_are_not_repeated(make_node: MakeNode) -> None:
    """The next round records its own, and these are complete."""
    node = make_node(limits=replace(FAST, quiet_s=1000.0))
    mark = node.folder / "mark"
    mark.touch()
    node.package("first", f"import os, time\nwhile os.path.exists({str(mark)!r}): time.sleep(0.01)")
    node.package("second", "")
    node.script("import sys, decimal" + SHOW.format("'second' in sys.modules") + "import first, second")
    await node.start()
    assert await shown(node) == ["False", "False"]
    await node.stop()
    node.starter._limits = FAST
    await node.settled()
    assert node.starter._zygote.ready is None
    mark.unlink()
    assert await node.restart() == [False, False]
    await node.forked_ahead()
    assert await node.restart() == [True, True]
    assert await shown(node) == ["True", "True"]
