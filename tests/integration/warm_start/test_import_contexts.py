"""Imports inside a context: what they change there may end with the context, so each worker does them itself."""

from collections.abc import Callable

import pytest

from elasticjob_api.import_profile import decode_profile, encode_profile
from testing.pythons import need_python
from tests.integration.warm_start.shown import shown_cold_and_warm
from tests.integration.warm_start.warm_node import WarmNode

Sentences = Callable[[], list[str]]

_FILTER = "import warnings\nclass Own(Warning): pass\nwarnings.simplefilter('ignore', Own)\n"
_FILTERS = "sum(each[2].__name__ == 'Own' for each in warnings.filters)"
_VARIABLE = "import contextvars\nvariable = contextvars.ContextVar('variable', default=0)\n"
_SETS = "import variable\nvariable.variable.set(1)\n"
_VALUE = "variable.variable.get()"
_CHANGED = "when it is imported, which is done in a `with` block"
_IN_WITH = f"not preloaded: trap (changes the filters of warnings {_CHANGED})"
_IN_COROUTINE = "not preloaded: trap (is imported by a coroutine or in an event loop)"
_HEAD = "import decimal, fractions, warnings\n"

_STRICT = {
    "a block": (_HEAD + "with warnings.catch_warnings(): import trap", _FILTER, _FILTERS, _IN_WITH),
    "a try in a block": (
        _HEAD + "with warnings.catch_warnings():\n    try:\n        import trap\n    finally:\n        pass",
        *(_FILTER, _FILTERS, _IN_WITH),
    ),
    "a handler in a block": (
        _HEAD
        + "with warnings.catch_warnings():\n    try:\n        1 / 0\n"
        + "    except ZeroDivisionError:\n        import trap",
        *(_FILTER, _FILTERS, _IN_WITH),
    ),
    "a block around a call": (
        _HEAD + "def load():\n    import trap\ndef outer():\n    load()\nwith warnings.catch_warnings(): outer()",
        *(_FILTER, _FILTERS, _IN_WITH),
    ),
    "a block with a return": (
        _HEAD + "def load():\n    with warnings.catch_warnings():\n        return __import__('trap')\nload()",
        *(_FILTER, _FILTERS, _IN_WITH),
    ),
    "a decorator": (
        _HEAD
        + "import contextlib\n@contextlib.contextmanager\ndef kept():\n    with warnings.catch_warnings(): yield\n"
        + "@kept()\ndef load():\n    import trap\nload()",
        *(_FILTER, _FILTERS, _IN_WITH),
    ),
    "a context of decimal": (
        _HEAD + "with decimal.localcontext(): import trap",
        "import decimal\ndecimal.getcontext().prec = 5",
        *("decimal.getcontext().prec", f"not preloaded: trap (changes a context variable {_CHANGED})"),
    ),
    "a thread": (
        _HEAD
        + "import threading, variable\n"
        + "thread = threading.Thread(target=lambda: __import__('trap'))\nthread.start(); thread.join()",
        *(_SETS, _VALUE, "not preloaded: trap (is imported in a thread or a greenlet)"),
    ),
    "a coroutine": (
        _HEAD + "import asyncio, variable\nasync def main():\n    import trap\nasyncio.run(main())",
        *(_SETS, _VALUE, _IN_COROUTINE),
    ),
    "an async block": (
        _HEAD
        + "import asyncio, contextlib, variable\n"
        + "async def main():\n    async with contextlib.AsyncExitStack():\n        import trap\nasyncio.run(main())",
        *(_SETS, _VALUE, _IN_COROUTINE),
    ),
    "a callback of a loop": (
        _HEAD
        + "import asyncio, variable\nloop = asyncio.new_event_loop()\n"
        + "def load():\n    import trap\n    loop.stop()\nloop.call_soon(load)\nloop.run_forever()\nloop.close()",
        *(_SETS, _VALUE, _IN_COROUTINE),
    ),
}


@pytest.fixture
def with_variable(node: WarmNode) -> WarmNode:
    """Return a node with a package that has a context variable."""
    node.package("variable", _VARIABLE)
    return node


async def _check_strict(node: WarmNode, sentences: Sentences) -> None:
    """Check all of these cases in one script, each with a package of its own."""
    scripts, expected = [], []
    for number, (imports, code, _, sentence) in enumerate(_STRICT.values()):
        node.package(f"trap_{number}", code)
        scripts.append(imports.replace("trap", f"trap_{number}"))
        expected.append(sentence.replace("trap", f"trap_{number}"))
    shown = ", ".join({expression for _, _, expression, _ in _STRICT.values()})
    cold, warm = await shown_cold_and_warm(node, "\n".join(scripts), shown)
    assert warm == cold
    assert sorted(sentences()) == sorted(expected)


async def test_an_import_in_a_context_of_the_script_is_not_done_ahead(
    with_variable: WarmNode, sentences: Sentences
) -> None:
    await _check_strict(with_variable, sentences)


@pytest.mark.nightly
@pytest.mark.parametrize("version", ["3.8", "3.9", "3.10", "3.12", "3.13"])
async def test_other_pythons_do_no_import_in_a_context_ahead_either(
    with_variable: WarmNode, sentences: Sentences, version: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    argv = [need_python(version), str(with_variable.work / "train.py")]
    monkeypatch.setattr(with_variable, "argv", lambda: argv)
    await _check_strict(with_variable, sentences)


_PACKAGE_CALL = "import warnings\ndef load():\n    with warnings.catch_warnings():\n        import trap\n"


@pytest.mark.parametrize(
    ("code", "head", "shown"),
    [
        (_FILTER, "import warnings", (_FILTERS, "the filters of warnings")),
        (_SETS, "import variable", (_VALUE, "a context variable")),
        (
            "import decimal\ndecimal.getcontext().prec = 5",
            "import decimal\ndecimal.getcontext()",
            ("decimal.getcontext().prec", "a context variable"),
        ),
        (
            "import place\nplace.place.value = 1",
            "import place",
            ("getattr(place.place, 'value', 0)", "values of threading.local"),
        ),
        ("import sys\nsys.stdout = sys.stderr", "import sys", ("sys.stdout is sys.stderr", "a stream or hook of sys")),
    ],
)
async def test_an_import_in_a_context_of_a_package_is_not_done_ahead_if_it_changes_a_setting(
    with_variable: WarmNode, sentences: Sentences, code: str, head: str, shown: tuple[str, str]
) -> None:
    node, (expression, what) = with_variable, shown
    node.package("place", "import threading\nplace = threading.local()")
    node.package("trap", code)
    node.package(
        "caller",
        "import contextlib, contextvars, sys, warnings, decimal, threading, place\n@contextlib.contextmanager\n"
        "def kept():\n    out = sys.stdout\n    old = decimal.getcontext().copy()\n    yield\n"
        "    sys.stdout = out\n    decimal.setcontext(old)\n    vars(place.place).clear()\n"
        "def load():\n    with warnings.catch_warnings(), kept():\n        import trap\n",
    )
    imports = f"{_HEAD}{head}\nimport caller\ncaller.load()"
    if code == _SETS:
        imports += "\nvariable.variable.set(0)"
    cold, warm = await shown_cold_and_warm(node, imports, expression)
    assert warm == cold
    assert sentences() == [f"not preloaded: trap (changes {what} when it is imported, which is done in a `with` block)"]


async def test_an_import_in_a_context_of_a_package_that_changes_no_setting_is_done_ahead(
    node: WarmNode, sentences: Sentences
) -> None:
    node.package("trap", "import wave")
    node.package("caller", _PACKAGE_CALL)
    imports = "import sys, decimal, fractions, caller\nahead = [each in sys.modules for each in ('trap', 'wave')]\n"
    cold, warm = await shown_cold_and_warm(node, imports + "caller.load()", "ahead")
    assert (cold[0], warm) == ("[False, False]", ["[True, True]"] * 2)
    assert sentences() == []


async def test_a_context_in_the_code_of_a_package_is_there_again(node: WarmNode, sentences: Sentences) -> None:
    node.package("trap", _FILTER)
    node.package("outer", "import warnings\nwith warnings.catch_warnings():\n    import trap\n")
    imports = "import sys, decimal, fractions, warnings\nahead = 'trap' in sys.modules\nimport outer"
    cold, warm = await shown_cold_and_warm(node, imports, f"ahead, {_FILTERS}")
    assert (cold[0], warm) == ("False 0", ["True 0"] * 2)
    assert sentences() == []


async def test_the_context_of_a_package_that_each_worker_imports_is_missing(
    node: WarmNode, sentences: Sentences
) -> None:
    node.package("trap", _FILTER)
    node.package("outer", "import os, warnings\nos.environ['RANK']\nwith warnings.catch_warnings():\n    import trap\n")
    cold, warm = await shown_cold_and_warm(node, _HEAD + "import outer", _FILTERS)
    assert warm == cold
    assert sentences() == [
        "not preloaded: outer (reads RANK when it is imported)",
        "not preloaded: trap (changes the filters of warnings when it is imported, which is done in a `with` block)",
    ]


_LOAD = "\nthread = threading.Thread(target=lambda: __import__('trap'))\nthread.start(); thread.join()\n"
_IN_THREAD = "not preloaded: trap (is imported in a thread or a greenlet)"


async def test_a_package_that_imports_a_module_of_a_thread_is_not_imported_ahead(
    node: WarmNode, sentences: Sentences
) -> None:
    node.package("trap", _FILTER)
    for name in ("user", "another"):
        node.package(name, "import trap")
    cold, warm = await shown_cold_and_warm(node, f"{_HEAD}import threading{_LOAD}import user, another", _FILTERS)
    assert warm == cold
    what = "imports trap, which the script imports in a context before"
    expected = [f"not preloaded: another ({what})", f"not preloaded: user ({what})", _IN_THREAD]
    assert sorted(sentences()) == sorted(expected)


async def test_modules_of_an_import_in_a_thread_are_not_imported_ahead_either(
    node: WarmNode, sentences: Sentences
) -> None:
    node.package("inner", _FILTER)
    node.package("trap", "import inner")
    imports = f"{_HEAD}import sys, threading\nahead = 'inner' in sys.modules{_LOAD}"
    cold, warm = await shown_cold_and_warm(node, imports, f"ahead, {_FILTERS}")
    assert warm == cold
    assert sentences() == [_IN_THREAD]


_BRINGS = "import warnings\n{}def load():\n    with warnings.catch_warnings():\n        import first, second\n"


async def test_another_import_may_bring_a_module_of_a_block(node: WarmNode, sentences: Sentences) -> None:
    """The order of a set, and so the hashes of a process, may decide about the package that brings a module."""
    node.package("inner", "")
    node.package("first", "import sys\nif 'zygote' not in sys.argv[1:]: import inner")
    node.package("second", "import inner\nimport statistics")
    node.package("caller", _BRINGS.format(""))
    (node.work / "own.py").write_text("import sys\nahead = [each in sys.modules for each in ('first', 'second')]")
    imports = "import decimal, fractions, own, caller\ncaller.load()\nimport second, statistics"
    cold, warm = await shown_cold_and_warm(node, imports, "own.ahead")
    assert (cold[0], warm) == ("[False, False]", ["[True, True]"] * 2)
    assert sentences() == []


async def test_a_module_of_a_block_that_another_import_brings_is_compared(node: WarmNode, sentences: Sentences) -> None:
    node.package("trap", _FILTER)
    node.package("user", "import trap\nimport warnings\nwarnings.simplefilter('ignore', ResourceWarning)")
    (node.work / "beside.py").write_text("import warnings\nwith warnings.catch_warnings():\n    import trap\n")
    cold, warm = await shown_cold_and_warm(node, _HEAD + "import beside, user", _FILTERS)
    assert warm == cold
    assert sentences() == [_IN_WITH, "not preloaded: user (imports trap)"]


_TORCH = """
enabled = True
def is_grad_enabled(): return enabled
class Generator:
    def get_state(self): return self
    def numpy(self): return self
    def tobytes(self): return b""
    def seed(self): pass
default_generator = Generator()
"""
_WITHOUT = "is imported while torch computes without gradients, as in `torch.no_grad()`"


@pytest.mark.parametrize(
    "code",
    [
        "torch.enabled = False\nimport trap\ntorch.enabled = True",
        "torch.enabled = False\nwith warnings.catch_warnings(): import trap",
    ],
    ids=["no block is seen", "a block"],
)
async def test_an_import_without_gradients_is_done_by_each_worker(
    node: WarmNode, sentences: Sentences, code: str
) -> None:
    node.package("torch", _TORCH)
    node.package("trap", "import torch\nhas_gradients = torch.is_grad_enabled()")
    cold, warm = await shown_cold_and_warm(node, f"{_HEAD}import torch\n{code}", "trap.has_gradients")
    assert warm == cold == ["False", "False"]
    assert sentences() == [f"not preloaded: trap ({_WITHOUT})"]


async def test_a_command_that_calls_its_function_in_a_block_does_its_imports_ahead(
    node: WarmNode, sentences: Sentences
) -> None:
    """So does click, and with it a training whose model imports the compiler of torch."""
    node.package("click_like", "import warnings\ndef call(function):\n    with warnings.catch_warnings(): function()\n")
    node.package("late", "")
    imports = (
        "import sys, decimal, fractions, click_like\nahead = 'late' in sys.modules\n"
        "def main():\n    import late\nclick_like.call(main)"
    )
    cold, warm = await shown_cold_and_warm(node, imports, "ahead")
    assert (cold[0], warm) == ("False", ["True"] * 2)
    assert sentences() == []


async def test_an_import_after_a_context_is_done_ahead(node: WarmNode, sentences: Sentences) -> None:
    node.package("after", "")
    imports = (
        "import sys, decimal, fractions, warnings\nahead = 'after' in sys.modules\n"
        "def load():\n    with warnings.catch_warnings():\n        try:\n            1 / 0\n"
        "        except ZeroDivisionError:\n            pass\n    import after\nload()"
    )
    cold, warm = await shown_cold_and_warm(node, imports, "ahead")
    assert (cold[0], warm) == ("False", ["True"] * 2)
    assert sentences() == []


async def test_a_context_of_a_module_beside_the_script_counts(node: WarmNode, sentences: Sentences) -> None:
    node.package("trap", _FILTER)
    (node.work / "beside.py").write_text("import warnings\nwith warnings.catch_warnings():\n    import trap\n")
    cold, warm = await shown_cold_and_warm(node, _HEAD + "import beside", _FILTERS)
    assert warm == cold
    assert sentences() == [_IN_WITH]


@pytest.mark.parametrize("option", ["-m", "-c"])
async def test_a_context_of_a_command_of_another_form_counts(
    node: WarmNode, sentences: Sentences, option: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.package("trap", _FILTER)
    usual = node.argv

    def argv() -> list[str]:
        python = usual()[0]
        code = (node.work / "train.py").read_text()
        return [python, option, "train" if option == "-m" else code]

    monkeypatch.setattr(node, "argv", argv)
    imports = _HEAD + "with warnings.catch_warnings(): import trap"
    cold, warm = await shown_cold_and_warm(node, imports, _FILTERS)
    assert warm == cold
    assert sentences() == [_IN_WITH]


async def test_another_node_does_not_do_such_an_import_ahead_either(node: WarmNode) -> None:
    node.package("inner", "")
    node.package("trap", "import inner")
    await shown_cold_and_warm(node, f"{_HEAD}import threading{_LOAD}", "1")
    assert node.starter._zygote.ready
    data = encode_profile(node.starter._zygote.ready.profile)
    assert data is not None
    decoded = decode_profile(data)
    assert decoded is not None
    assert decoded.contexts == {"trap": "thread:", "inner": ":trap"}


async def test_a_module_that_brings_such_a_module_of_its_package_is_left_out_with_it(
    node: WarmNode, sentences: Sentences
) -> None:
    folder = node.packages / "large"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    (folder / "trap.py").write_text(_FILTER)
    (folder / "brings.py").write_text("import large.trap")
    imports = _HEAD + "import large\nwith warnings.catch_warnings(): import large.trap\nimport large.brings"
    cold, warm = await shown_cold_and_warm(node, imports, _FILTERS)
    assert warm == cold == ["0", "0"]
    in_with = _IN_WITH.replace("trap", "large.trap")
    assert sentences() == [in_with, in_with.replace("large.trap (", "large.brings (imports large.trap, which ")]


_RUNS = """
import warnings
def {name}(main):
    with warnings.catch_warnings():
        main()
"""


@pytest.mark.parametrize(
    ("module", "name"),
    [("hydra.core.utils", "run_job"), ("click.core", "invoke"), ("wandb.util", "load"), ("other.core", "invoke")],
)
async def test_a_known_block_that_sets_back_nothing_of_an_import_is_none(
    node: WarmNode, sentences: Sentences, module: str, name: str
) -> None:
    file = node.packages.joinpath(*module.split(".")).with_suffix(".py")
    file.parent.mkdir(parents=True)
    (file.parent / "__init__.py").write_text("")
    file.write_text(_RUNS.format(name=name))
    node.package("trap", _FILTER)
    await shown_cold_and_warm(
        node, f"{_HEAD}from {module} import {name}\ndef main():\n    import trap\n{name}(main)", "1"
    )
    assert sentences() == ([_IN_WITH] if module == "other.core" else [])


@pytest.mark.parametrize("package", ["mlflow", "other"])
async def test_the_block_of_mlflow_around_its_import_of_numpy_is_none(
    node: WarmNode, sentences: Sentences, package: str
) -> None:
    folder = node.packages / package / "data"
    folder.mkdir(parents=True)
    (folder.parent / "__init__.py").write_text("import os\nrank = os.environ['RANK']")
    (folder / "__init__.py").write_text("")
    block = "import contextlib\nwith contextlib.suppress(ImportError): import trap"
    (folder / "dataset_registry.py").write_text(block)
    node.package("trap", _FILTER)
    cold, warm = await shown_cold_and_warm(node, f"{_HEAD}import {package}.data.dataset_registry, wave", _FILTERS)
    assert warm == cold
    left = f"not preloaded: {package} (reads RANK when it is imported)"
    assert sentences() == [left, *([] if package == "mlflow" else [_IN_WITH])]
