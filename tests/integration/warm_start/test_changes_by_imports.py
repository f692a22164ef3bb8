"""An import or a script changes its own process: a warm worker has the change as a cold one, or starts cold."""

from collections.abc import Callable

import pytest

from testing.waiting import aeventually
from tests.integration.warm_start.shown import SHOW, shown, shown_cold_and_warm
from tests.integration.warm_start.warm_node import WarmNode

Sentences = Callable[[], list[str]]

_ENVIRONMENT = "'SET=1' in subprocess.getoutput('env'), 'LANG=' in subprocess.getoutput('env')"
_REPLACES_OPEN = """
import builtins
original = builtins.open
def opened(*arguments, **options):
    return original(*arguments, **options)
builtins.open = opened
"""
_WRAPS_OPEN = """
import io
def wrap(original):
    def opened(*arguments, **options):
        return original(*arguments, **options)
    return opened
io.open = wrap(io.open)
"""
_COUNTS_CHILDREN = """
import signal
runs = []
signal.signal(signal.SIGCHLD, lambda *_: runs.append(1))
"""
_WAITS_FOR_CHILDREN = """
import os, signal
signal.signal(signal.SIGCHLD, lambda *_: os.waitpid(-1, 0))
"""
_HAS_ALL_ATTRIBUTES = """
import sys
class Module:
    def __getattr__(self, name):
        return self
sys.modules['anything'] = Module()
"""
_KEPT = {
    "a function that counts the ends of children": (_COUNTS_CHILDREN, "changes.runs"),
    "a function that waits for children": (_WAITS_FOR_CHILDREN, "1"),
    "an object with all attributes in the place of a module": (_HAS_ALL_ATTRIBUTES, "'anything' in sys.modules"),
    "a function in the place of open": (
        _REPLACES_OPEN,
        "builtins.open.__name__, changes.original.__name__, open(__file__).read(3)",
    ),
    "a function in the place of io.open": (_WRAPS_OPEN, "io.open.__name__, io.open(__file__).read(3)"),
    "a variable of C's environment": ("import os\nos.putenv('SET', '1')", f"{_ENVIRONMENT}, os.environ.get('SET')"),
    "a variable that C's environment has no more": (
        "import os\nos.unsetenv('LANG')",
        f"{_ENVIRONMENT}, 'LANG' in os.environ",
    ),
    "an entry at the end of sys.path": ("import sys\nsys.path.append('/nowhere')", "sys.path"),
}


@pytest.mark.parametrize("name", _KEPT)
async def test_a_worker_has_what_an_import_has_changed(node: WarmNode, sentences: Sentences, name: str) -> None:
    code, expression = _KEPT[name]
    node.package("changes", code)
    cold, warm = await shown_cold_and_warm(node, "import builtins, io, subprocess, sys, changes, fractions", expression)
    assert warm == cold
    assert sentences() == []


@pytest.mark.parametrize("change", ["insert(0, '/nowhere')", "insert(2, '/nowhere')", "pop(0)"])
async def test_a_package_that_changes_the_beginning_of_the_path_is_imported_by_each_worker(
    node: WarmNode, sentences: Sentences, change: str
) -> None:
    node.package("changes", f"import sys\nsys.path.{change}")
    cold, warm = await shown_cold_and_warm(node, "import sys, decimal, changes, fractions", "sys.path")
    assert warm == cold
    assert sentences() == ["not preloaded: changes (changes more of sys.path than its end when it is imported)"]


async def test_a_package_that_replaces_the_environment_is_imported_by_each_worker(
    node: WarmNode, sentences: Sentences
) -> None:
    node.package("changes", "import os\nclass Own(dict): pass\nos.environ = Own(os.environ)")
    cold, warm = await shown_cold_and_warm(
        node, "import decimal, changes, fractions", "os.environ['RANK'], type(os.environ).__name__"
    )
    assert warm == cold == ["0 Own", "1 Own"]
    assert sentences() == ["not preloaded: changes (replaces os.environ when it is imported)"]


@pytest.mark.parametrize(
    ("code", "what"),
    [
        ("fd = os.open('redirected.txt', os.O_WRONLY | os.O_CREAT)\nos.dup2(fd, 2)\nos.close(fd)", "/redirected.txt"),
        ("os.close(0)", "closed"),
    ],
)
async def test_a_package_that_redirects_or_closes_a_stream_is_imported_by_each_worker(
    node: WarmNode, sentences: Sentences, code: str, what: str
) -> None:
    node.package("changes", f"import os\n{code}")
    cold, warm = await shown_cold_and_warm(
        node,
        "import changes, fractions",
        "[os.path.exists(f'/proc/self/fd/{fd}') and os.readlink(f'/proc/self/fd/{fd}')[:5] for fd in range(3)]",
    )
    assert warm == cold
    [sentence] = sentences()
    assert sentence.startswith("not preloaded: changes (redirects or closes a standard stream: ")
    assert sentence.endswith(f"{what})")


async def test_the_functions_that_an_import_has_registered_for_a_fork_have_run(node: WarmNode) -> None:
    node.package("changes", "import os\nruns = []\nos.register_at_fork(after_in_child=lambda: runs.append(1))")
    cold, warm = await shown_cold_and_warm(node, "import changes, fractions", "bool(changes.runs)")
    assert (cold, warm) == (["False"] * 2, ["True"] * 2)


async def test_a_script_that_makes_its_working_directory_anew_starts_warm(node: WarmNode) -> None:
    folder = node.folder / "scratch"
    folder.mkdir()
    node.cwd, node.nproc = str(folder), 1
    node.script(
        f"import decimal, shutil\nshutil.rmtree({str(folder)!r})\nos.mkdir({str(folder)!r})\nos.chdir({str(folder)!r})"
        + SHOW.format("os.getcwd(), os.listdir()")
    )
    await node.start()
    cold = await shown(node)
    await node.forked_ahead()
    for _ in range(2):
        assert await node.restart() == [True], node.starter.reason
        assert await shown(node) == cold
        await node.forked_ahead()


async def test_a_script_that_executes_itself_anew_runs_to_its_end(node: WarmNode) -> None:
    node.script(
        "import sys, decimal, fractions, statistics\n"
        "if 'AGAIN' not in os.environ:\n"
        "    os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, 'AGAIN': '1'})"
        + SHOW.format("os.environ['AGAIN'], sorted(each for each in os.listdir('/proc/self/fd') if int(each) < 3)")
    )
    await node.start()
    cold = await shown(node)
    await aeventually(lambda: node.starter._zygote.ready or node.starter._reasons.refusal, what="a decision")
    await node.settled()
    await node.restart()
    assert await shown(node) == cold


async def test_an_import_that_closes_all_descriptors_runs_each_script_once(node: WarmNode) -> None:
    node.package("changes", "import os\nos.closerange(3, 1024)")
    node.script("import decimal, changes, fractions" + SHOW.format("1"))
    for _ in range(3):
        await node.restart()
        assert await shown(node) == ["1", "1"]
        await node.settled()
