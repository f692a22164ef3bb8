"""Imports that draw from a global generator, or seed it: each rank draws as in a cold start."""

from collections.abc import Callable

import pytest

from tests.integration.warm_start.shown import rounds, shown_cold_and_warm
from tests.integration.warm_start.warm_node import WarmNode

Sentences = Callable[[], list[str]]
_REASON = "seeds or uses a global random generator when it is imported"


async def test_an_import_that_draws_from_the_numpy_that_it_has_imported_is_done_by_each_worker(
    node: WarmNode, sentences: Sentences
) -> None:
    node.package("draws", "import numpy\nvalue = numpy.random.rand()")
    drawn = await rounds(node, "import draws, fractions", "draws.value")
    assert len(set(drawn)) == len(drawn)
    assert sentences() == [f"not preloaded: draws ({_REASON})"]


async def test_the_seed_of_the_numpy_that_an_import_has_imported_is_kept(node: WarmNode, sentences: Sentences) -> None:
    node.package("seeds", "from numpy import random\nrandom.seed(7)")
    cold, warm = await shown_cold_and_warm(node, "import seeds, numpy, fractions", "numpy.random.rand()")
    assert warm == cold
    assert sentences() == [f"not preloaded: seeds ({_REASON})"]


async def test_an_import_of_numpy_alone_is_done_ahead(node: WarmNode, sentences: Sentences) -> None:
    node.package("uses", "import numpy.random\nzero = numpy.zeros(3).sum()")
    finders = "[name for name in map(str, sys.meta_path) if 'warm_start' in name and 'ImportRecorder' not in name]"
    loader = "sorted(vars(sys.modules['numpy.random.mtrand'].__loader__))"
    cold, warm = await shown_cold_and_warm(node, "import uses, fractions", f"{finders}, {loader}")
    assert warm == cold
    assert sentences() == []


@pytest.mark.parametrize("code", ["random.seed(3)", "random.random()"])
async def test_the_last_import_is_watched_too(node: WarmNode, sentences: Sentences, code: str) -> None:
    (node.packages / "late").mkdir()
    (node.packages / "late" / "__init__.py").write_text("")
    (node.packages / "late" / "part.py").write_text(f"import random\n{code}\nvalue = random.random()")
    node.package("other", "")
    cold, warm = await shown_cold_and_warm(node, "import late, random, other, late.part", "late.part.value")
    assert (warm == cold) == (code == "random.seed(3)")
    assert len(set(cold + warm)) == (1 if code == "random.seed(3)" else 4)
    assert sentences() == [f"not preloaded: late ({_REASON})"]


_TORCH = """
class State:
    def numpy(self): return self
    def tobytes(self): return b""
class Generator(int):
    __slots__ = ()
    def get_state(self): return State()
    def seed(self): pass
default_generator = Generator(1)
"""
"""Its generators are no objects of the garbage collector, as those of torch."""


async def test_a_package_that_keeps_a_generator_of_torch_in_an_object_is_not_preloaded(
    node: WarmNode, sentences: Sentences
) -> None:
    node.package("torch", _TORCH)
    node.package("keeps", "import torch\nclass A: pass\nA.generators = [torch.Generator(7)]")
    cold, warm = await shown_cold_and_warm(node, "import torch, keeps, fractions", "keeps.A.generators")
    assert warm == cold
    assert sentences() == ["not preloaded: keeps (keeps a random generator with a seed of its own)"]
