"""Modules that `importlib.util.LazyLoader` has made: their code runs when they are first used, not ahead."""

from collections.abc import Callable

import pytest

from testing.pythons import need_python
from tests.integration.warm_start.shown import SHOW, shown
from tests.integration.warm_start.warm_node import WarmNode

Sentences = Callable[[], list[str]]

_LOAD = """
import importlib.util, sys
def load(name):
    spec = importlib.util.find_spec(name)
    spec.loader = loader = importlib.util.LazyLoader(spec.loader)
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module
"""
_OBJECT = """
class Raises:
    def __getattr__(self, name):
        raise RuntimeError(name)
sys.modules["early_object"] = Raises()
"""
_HEAVY = "import os\nos.environ['{0}_RUNS'] = mode = os.environ.get('MODE', 'none')\npid = os.getpid()\nprint('runs')"
_SCRIPT = """
import decimal, early, used, fractions
ahead = load('ahead')
import colorsys
os.environ['MODE'] = 'of the script'
"""
_SHOWN = (
    "sorted(each for each in os.environ if each.endswith('_RUNS')), ahead.mode, type(early.lazy).__name__, "
    "used.find() == os.getpid(), sorted(each for each in os.environ if each.endswith('_RUNS'))"
)


@pytest.mark.parametrize("version", ["3.8", "3.11", "3.13"])
async def test_a_lazy_module_runs_when_the_worker_uses_it(node: WarmNode, sentences: Sentences, version: str) -> None:
    for name in ("ahead", "of_early", "of_used"):
        node.package(name, _HEAVY.format(name.upper()))
    node.package("early", f"{_LOAD}\nlazy = load('of_early')\n{_OBJECT}")
    node.package("used", f"{_LOAD}\nlazy = load('of_used')\ndef find():\n    return lazy.pid")
    argv = (need_python(version), node.script(f"{_LOAD}\n{_SCRIPT}{SHOW.format(_SHOWN)}"))
    await node.start(*argv)
    cold = await shown(node)
    await node.forked_ahead()
    assert await node.restart(*argv) == [True, True], node.starter.reason
    assert await shown(node) == cold
    assert sentences() == []
