"""Code that Python runs before the script: `.pth` files, the user's sitecustomize, and modules that these load."""

import os
import venv
from collections.abc import Callable
from pathlib import Path

import pytest

from elasticjob_agent.supervisor import Command
from elasticjob_agent.warm_start.node_recording import NodeRecording
from testing.waiting import aeventually
from tests.integration.warm_start.shown import SHOW, shown
from tests.integration.warm_start.warm_node import WarmNode

Sentences = Callable[[], list[str]]


class Site:
    """A virtual environment of one node, whose `.pth` files this Python runs before each script."""

    def __init__(self, node: WarmNode) -> None:
        venv.create(node.folder / "venv", symlinks=True)
        self._node = node
        self.python = node.folder / "venv" / "bin" / "python"
        [self.packages] = (node.folder / "venv").glob("lib/python*/site-packages")

    def pth(self, code: str, name: str = "own.pth") -> Path:
        """Write a `.pth` file with this code."""
        path = self.packages / name
        path.write_text(f"import sys; exec({code!r})\n")
        return path

    def script(self, expression: str, imports: str = "import decimal, sys") -> list[Path]:
        """Return the command of a script that shows this expression."""
        return [self.python, self._node.script(imports + SHOW.format(expression))]


@pytest.fixture
def site(node: WarmNode) -> Site:
    return Site(node)


_KEPT = {
    "its pid": ("import os; sys.kept = os.getpid()", "sys.kept == os.getpid()", "keeps the number of its process"),
    "the rank": ("import os; sys.kept = os.environ.get('RANK')", "sys.kept", "reads RANK"),
    "the rank, as a variable": (
        "import os; os.environ['DEVICE'] = os.environ['RANK']",
        "os.environ['DEVICE']",
        "reads RANK",
    ),
    "all variables": ("import os; sys.kept = dict(os.environ)", "sys.kept['RANK']", "reads all variables"),
    "a value of all variables": (
        "import os; sys.kept = [value for name, value in os.environ.items() if name[:4] == 'RANK']",
        "sys.kept",
        "reads RANK",
    ),
    "a seed": (
        "import random; random.seed(5)",
        "__import__('random').random()",
        "seeds or uses a global random generator",
    ),
    "a seed of the rank": (
        "import random, os; random.seed(int(os.environ['RANK']))",
        "__import__('random').random()",
        "reads RANK",
    ),
    "a temporary folder": (
        "import tempfile; sys.kept = tempfile.mkdtemp()",
        "bool(sys.kept)",
        "makes a temporary file",
    ),
}


@pytest.mark.parametrize("name", _KEPT)
async def test_a_pth_file_that_keeps_a_fact_of_one_process_is_a_reason(
    node: WarmNode, site: Site, sentences: Sentences, name: str
) -> None:
    code, expression, reason = _KEPT[name]
    site.pth(code)
    words = site.script(expression)
    await node.start(*words)
    cold = await shown(node)
    await aeventually(lambda: node.starter._reasons.refusal or node.starter._zygote.ready, what="a decision")
    for _ in range(2):
        assert await node.restart(*words) == [False, False]
        assert await shown(node) == cold
    assert sentences() == [f"not warm: a .pth file {reason}"]


async def test_a_module_that_a_pth_file_loads_is_watched(node: WarmNode, site: Site, sentences: Sentences) -> None:
    (site.packages / "loaded.py").write_text("import os\npid = os.getpid()")
    site.pth("import loaded")
    words = site.script("sys.modules['loaded'].pid == os.getpid()")
    await node.start(*words)
    assert await shown(node) == ["True", "True"]
    await aeventually(lambda: node.starter._reasons.refusal or node.starter._zygote.ready, what="a decision")
    assert await node.restart(*words) == [False, False]
    assert await shown(node) == ["True", "True"]
    assert sentences() == ["not warm: loaded, which Python loads before the script, keeps the number of its process"]


async def test_a_generator_of_a_module_that_a_pth_file_loads_is_a_reason(
    node: WarmNode, site: Site, sentences: Sentences
) -> None:
    (site.packages / "loaded.py").write_text("import random\ngenerator = random.Random(3)")
    site.pth("import loaded")
    words = site.script("sys.modules['loaded'].generator.random()")
    await node.start(*words)
    cold = await shown(node)
    await aeventually(lambda: node.starter._reasons.refusal or node.starter._zygote.ready, what="a decision")
    assert await node.restart(*words) == [False, False]
    assert await shown(node) == cold
    reason = "keeps a random generator with a seed of its own"
    assert sentences() == [f"not warm: loaded, which Python loads before the script, {reason}"]


_STARTS_PYTHON = """
import os, subprocess
if not os.environ.get("INNER"):
    words = [sys.executable, "-c", "import sys; print(sys.warnoptions, sys.flags)"]
    os.environ["INNER"] = "1"
    sys.kept = subprocess.run(words, stdout=-1).stdout
    del os.environ["INNER"]
"""
_HARMLESS = {
    "sets a variable": (
        "import os; os.environ['DEVICE'] = 'cpu'; os.environ.pop('LANG', None)",
        "dict(os.environ, RANK=0)",
    ),
    "asks for a variable": (
        "import os; os.environ.get('SETUPTOOLS_USE_DISTUTILS', 'local') == 'local' and __import__('fractions')",
        "'fractions' in sys.modules",
    ),
    "adds a path": ("sys.path.append('/nowhere')", "sys.path"),
    "reads the warnings": ("sys.kept = [*sys.warnoptions]", "sys.kept, sys.warnoptions"),
    "looks at its environment": (
        "import os; sys.kept = sorted(each for each in os.environ if 'PYTHON' in each or 'ELASTIC' in each)",
        "[each for each in sys.kept if each not in ('ELASTICJOB_PRELOAD', 'ELASTICJOB_PYTHONPATH')]",
    ),
    "starts a Python": (
        _STARTS_PYTHON,
        "sys.kept",
    ),
    "uses a patched select and socket": (
        "import select, socket; select.select = select.poll = socket.socket = None",
        "__import__('socket').socket",
    ),
}


@pytest.mark.parametrize("name", _HARMLESS)
async def test_a_pth_file_that_keeps_nothing_of_one_process_is_no_reason(
    node: WarmNode, site: Site, sentences: Sentences, name: str
) -> None:
    code, expression = _HARMLESS[name]
    site.pth(code)
    node.env["ROUNDS"] = "same"
    words = site.script(expression.replace("RANK=0", "RANK=0, ROUND=0"))
    await node.start(*words)
    cold = await shown(node)
    await node.forked_ahead()
    for _ in range(2):
        assert await node.restart(*words) == [True, True], node.starter.reason
        assert await shown(node) == cold
        await node.forked_ahead()
    assert sentences() == []
    assert b"Traceback" not in node.preload.data


async def test_a_pth_file_that_comes_later_is_run(node: WarmNode, site: Site, sentences: Sentences) -> None:
    words = site.script("getattr(sys, 'kept', 0)")
    await node.start(*words)
    await node.ran()
    await node.forked_ahead()
    path = site.pth("sys.kept = 1")
    assert await node.restart(*words) == [False, False]
    assert await shown(node) == ["1", "1"]
    await node.forked_ahead()
    assert await node.restart(*words) == [True, True]
    assert await shown(node) == ["1", "1"]
    await node.forked_ahead()
    path.write_text("import sys; sys.kept = 22\n")
    os.utime(path, ns=(1, 1))  # whatever the resolution of the clock
    assert await node.restart(*words) == [False, False]
    assert await shown(node) == ["22", "22"]
    await node.forked_ahead()
    path.unlink()
    assert await node.restart(*words) == [False, False]
    assert await shown(node) == ["0", "0"]
    assert {each.partition(" has changed")[2] for each in sentences()} == {" since it was imported"}


async def test_a_module_of_a_pth_file_that_changes_is_loaded_anew(node: WarmNode, site: Site) -> None:
    """As the finder of an editable installation, which has the folders of its packages."""
    module = site.packages / "finder.py"
    module.write_text("value = 1")
    site.pth("import finder")
    words = site.script("sys.modules['finder'].value")
    await node.start(*words)
    assert await shown(node) == ["1", "1"]
    await node.forked_ahead()
    module.write_text("value = 22")
    os.utime(module, ns=(1, 1))
    assert await node.restart(*words) == [False, False]
    assert await shown(node) == ["22", "22"]


_HIDDEN = ("socket", "select", "json", "ctypes")


@pytest.mark.parametrize("name", _HIDDEN)
async def test_a_module_of_the_user_that_hides_one_of_the_zygote_is_a_reason(
    node: WarmNode, sentences: Sentences, name: str
) -> None:
    own = node.folder / "own"
    own.mkdir()
    (own / f"{name}.py").write_text("")
    node.env["PYTHONPATH"] = f"{own}:{node.packages}"
    node.script()
    await node.start()
    await node.ran()
    await node.forked_ahead()
    assert await node.restart() == [False, False]
    await node.ran()
    assert sentences() == [f"not warm: {name} in {own} would hide the imported module"]
    assert b"Traceback" not in node.preload.data


@pytest.mark.parametrize("name", _HIDDEN)
async def test_a_module_of_the_user_that_hides_one_of_python_is_a_reason(
    node: WarmNode, sentences: Sentences, name: str
) -> None:
    own = node.folder / "own"
    own.mkdir()
    (own / f"{name}.py").write_text("def __getattr__(name):\n    raise AttributeError(name)")
    node.env["PYTHONPATH"] = f"{own}:{node.packages}"
    node.script("import decimal" + SHOW.format(f"__import__('{name}').__file__"))
    await node.start()
    assert await shown(node) == [str(own / f"{name}.py")] * 2
    await node.settled()
    assert await node.restart() == [False, False]
    assert await shown(node) == [str(own / f"{name}.py")] * 2
    assert sentences() == [f"not warm: the script has another {name} than the installed packages"]
    assert b"Traceback" not in node.preload.data


async def test_a_sitecustomize_that_patches_modules_is_no_reason(node: WarmNode, sentences: Sentences) -> None:
    node.package("sitecustomize", "import select, socket\nselect.select = select.poll = socket.socket = None")
    node.script("import decimal" + SHOW.format("__import__('socket').socket"))
    await node.start()
    assert await shown(node) == ["None", "None"]
    await node.forked_ahead()
    assert await node.restart() == [True, True]
    assert await shown(node) == ["None", "None"]
    assert (sentences(), b"Traceback" in node.preload.data) == ([], False)


async def test_a_module_beside_the_script_is_not_looked_for_by_the_sitecustomize(
    node: WarmNode, sentences: Sentences
) -> None:
    """The one that looks for it is the zygote itself, for which our own sitecustomize calls."""
    node.package("sitecustomize", "")
    (node.work / "beside.py").write_text("")
    node.script("import beside, decimal, sys" + SHOW.format("sys.modules['sitecustomize'].__file__"))
    await node.start()
    own = [str(node.packages / "sitecustomize.py")] * 2
    assert await shown(node) == own
    await node.forked_ahead()
    assert await node.restart() == [True, True]
    assert (await shown(node), sentences()) == (own, [])


def _before_build(node: WarmNode, change: Callable[[], object]) -> None:
    """Let this change happen when the workers have been recorded, right before the zygote is built."""
    check = node.starter._builder.check

    def check_and_change(command: Command, pid: int, recording: NodeRecording) -> None:
        check(command, pid, recording)
        change()

    node.starter._builder.check = check_and_change  # type: ignore[method-assign]


async def _fails_to_build(node: WarmNode) -> str:
    """Return why no zygote was built, and check that none has run the script."""
    reasons, failed = node.starter._reasons, "the zygote could not be built: "
    await aeventually(
        lambda: reasons.no_zygote.startswith(failed) or len(node.run_files()) > node.nproc, what="a failed build"
    )
    await node.ran()
    return reasons.no_zygote.removeprefix(failed)


@pytest.mark.parametrize("lost", ["*.py", "sitecustomize.py", "elasticjob_before_site.py"])
async def test_no_zygote_is_started_if_a_file_of_it_is_gone(
    node: WarmNode, sentences: Sentences, site_folder: Path, lost: str
) -> None:
    """It would run the script beside the workers. An upgrade in a running pod may remove the files."""

    def lose() -> None:
        for path in site_folder.glob(lost):
            path.unlink()

    _before_build(node, lose)
    node.script()
    await node.start()
    assert str(site_folder) in await _fails_to_build(node)
    assert await node.restart() == [False, False]
    await node.ran()
    assert len(sentences()) == 1


async def test_a_sitecustomize_in_front_of_that_of_a_zygote_does_not_lead_to_the_script(
    node: WarmNode, site: Site
) -> None:
    own = node.folder / "own"
    own.mkdir()
    (own / "sitecustomize.py").write_text("")
    _before_build(node, lambda: site.pth(f"sys.path.insert(0, {str(own)!r})"))
    node.script()
    await node.start(site.python, node.work / "train.py")
    assert await _fails_to_build(node) == "it ended during the imports (exited with code 70)"
