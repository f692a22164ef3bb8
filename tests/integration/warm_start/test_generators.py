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


_SET_STATE = """
class Tensor(bytes):
    def numpy(self): return self
    def tobytes(self): return bytes(self)
class Generator:
    state = Tensor(b"1")
    def get_state(self): return self.state
    def set_state(self, state): self.state = state
    def seed(self): pass
default_generator = Generator()
def get_rng_state(): return default_generator.get_state()
def set_rng_state(state): default_generator.set_state(state)
set_rng_state(get_rng_state())
"""
"""The functions of torch by which `torch.random.fork_rng` restores its generator; its own import calls one."""

_RESTORED = {
    "random": "import random\nstate = random.getstate()\nvalue = random.random()\nrandom.setstate(state)",
    "the function alone": "from random import *\nstate = getstate()\nvalue = random()\nsetstate(state)",
    "the object": (
        "import random\nowner = random.random.__self__\nstate = owner.getstate()\nvalue = random.random()\n"
        "owner.setstate(state)"
    ),
    "numpy": (
        "import numpy.random\nstate = numpy.random.get_state()\nvalue = numpy.random.rand()\n"
        "numpy.random.set_state(state)"
    ),
    "torch": (
        "import torch\nstate = torch.get_rng_state()\ntorch.default_generator.state = torch.Tensor(b'2')\n"
        "value = id(torch)\ntorch.set_rng_state(state)"
    ),
}


@pytest.mark.parametrize("name", _RESTORED)
async def test_an_import_that_restores_a_generator_after_it_has_drawn_is_done_by_each_worker(
    node: WarmNode, sentences: Sentences, name: str
) -> None:
    node.package("torch", _SET_STATE)
    node.package("isolated", _RESTORED[name])
    drawn = await rounds(node, "import isolated, fractions", "isolated.value")
    assert len(set(drawn)) == len(drawn) or name == "torch"
    assert sentences() == [f"not preloaded: isolated ({_REASON})"]


async def test_the_functions_that_restore_a_generator_are_those_of_the_libraries(
    node: WarmNode, sentences: Sentences
) -> None:
    """They are given back, and the import of a generator of its own restores what it likes."""
    node.package("torch", _SET_STATE)
    node.package(
        "keeps",
        "import torch\nfrom random import Random, setstate\nfrom numpy.random import set_state\n"
        "own = Random()\nown.setstate(own.getstate())",
    )
    kinds = "type(keeps.setstate), type(keeps.set_state), keeps.torch.set_rng_state.__module__"
    same = "keeps.setstate is random.setstate, keeps.Random.setstate.__qualname__, keeps.Random.setstate.__module__"
    cold, warm = await shown_cold_and_warm(node, "import keeps, random, fractions", f"{kinds}, {same}")
    assert warm == cold
    assert sentences() == []
