"""Imports that do more than define names: the script runs once a rank, and a start is warm only where it may be."""

import os
import signal
from collections.abc import Callable

import pytest

from elasticjob_agent.warm_start.limits import Limits
from testing.waiting import aeventually
from tests.integration.warm_start.conftest import MakeNode
from tests.integration.warm_start.shown import shown_cold_and_warm
from tests.integration.warm_start.warm_node import FAST, WarmNode

Sentences = Callable[[], list[str]]

_MEMORY = (
    "import mmap\nmemory = mmap.mmap(-1, 4096, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)\nmemory.madvise({mark})"
)
_COLD = {
    "sets a variable of the rank": (
        "import os\nos.environ['RANK'] = os.environ['ROUND'] if False else '7'",
        "an import sets RANK, which differs by rank",
    ),
    "changes the folder": ("import os\nos.chdir('/')", "an import changes the working directory"),
    "sets a tracer": ("import sys\nsys.setprofile(lambda *_: None)", "an import starts a debugger or coverage tool"),
    "keeps memory out of forks": (
        _MEMORY.format(mark=10),
        "importing a module leaves memory that forked workers do not have (MADV_DONTFORK): anonymous",
    ),
    "has memory that forks find empty": (
        _MEMORY.format(mark=18),
        "importing a module leaves memory that is empty in forked workers (MADV_WIPEONFORK): anonymous",
    ),
}


@pytest.mark.parametrize("name", _COLD)
async def test_an_import_that_a_fork_would_get_wrong_keeps_all_starts_cold(
    node: WarmNode, sentences: Sentences, name: str
) -> None:
    code, reason = _COLD[name]
    node.package("trap", code)
    node.script("rank = os.environ['RANK']\nimport decimal, trap")
    await node.start()
    await node.ran()
    await aeventually(lambda: node.starter._reasons.refusal, what="a refusal")
    for _ in range(2):
        assert await node.restart() == [False, False]
        await node.ran()
    [sentence] = [each for each in sentences() if each.startswith("not warm: ")]
    assert sentence.startswith(f"not warm: {reason}")


_LEFT_OUT = {
    "reads a variable of the rank": (
        "import os\nvalue = os.environ.get('RANK')",
        "not preloaded: trap (reads RANK when it is imported)",
    ),
    "makes a folder for itself": (
        "import tempfile\nvalue = tempfile.mkdtemp()",
        "not preloaded: trap (makes a temporary file when it is imported)",
    ),
}


@pytest.mark.parametrize("name", _LEFT_OUT)
async def test_a_package_that_belongs_to_one_rank_is_imported_by_each_worker(
    node: WarmNode, sentences: Sentences, name: str
) -> None:
    code, reason = _LEFT_OUT[name]
    node.package("trap", code)
    node.package("user_of_trap", "import trap")
    node.script("import decimal, user_of_trap, trap\nprint('value', os.environ['ROUND'], trap.value, flush=True)")
    await node.start()
    await node.ran()
    await node.forked_ahead()
    for _ in range(2):
        assert await node.restart() == [True, True]
        await node.ran()
        await aeventually(lambda: len(node.values()) == 2, what="two values")
        assert len(set(node.values())) == 2
        await node.forked_ahead()
    assert sentences() == [reason, "not preloaded: user_of_trap (imports trap)"]


_SIDE_EFFECTS = {
    "a thread": (
        "import threading, time\nthreading.Thread(target=time.sleep, args=(1000,), name='flush', daemon=True).start()",
        "[each.name for each in threading.enumerate()]",
        "leaves a thread: flush",
    ),
    "a descriptor": (
        "file = open('/dev/zero')",
        "os.readlink(f'/proc/self/fd/{trap.file.fileno()}')",
        "leaves a descriptor open: /dev/zero",
    ),
    "a process": (
        "import subprocess\nchild = subprocess.Popen(['sleep', '1000'])",
        "len(open('/proc/self/task/%d/children' % os.getpid()).read().split())",
        "leaves a process: process ",
    ),
    "a timer": (
        "import signal\nsignal.setitimer(signal.ITIMER_REAL, 1000)",
        "signal.getitimer(signal.ITIMER_REAL)[0] > 0",
        "leaves a timer: ITIMER_REAL",
    ),
    "a subreaper": (
        "import ctypes\nctypes.CDLL(None).prctl(36, 1, 0, 0, 0)",
        "(lambda value: ctypes.CDLL(None).prctl(37, ctypes.byref(value), 0, 0, 0) or value.value)(ctypes.c_int())",
        "makes its process a subreaper, which would become the parent of all workers: prctl(PR_SET_CHILD_SUBREAPER)",
    ),
}


@pytest.mark.parametrize("name", _SIDE_EFFECTS)
async def test_a_package_that_leaves_more_than_modules_is_imported_by_each_worker(
    node: WarmNode, sentences: Sentences, name: str
) -> None:
    code, expression, reason = _SIDE_EFFECTS[name]
    node.package("trap", code)
    node.package("user_of_trap", "import trap")
    head = "import ctypes, decimal, os, signal, threading\nimport user_of_trap, trap, wave"
    cold, warm = await shown_cold_and_warm(node, head, expression)
    assert warm == cold
    first, *others = sentences()
    assert first.startswith(f"not preloaded: user_of_trap ({reason}")
    assert [each.partition(" (")[0] for each in others] == ["not preloaded: trap"]


_BY_ITSELF = "not preloaded: settings (imports own_settings, which is not installed)"


@pytest.mark.parametrize(
    ("folder", "error", "note"),
    [
        ("work", "ImportError", "not preloaded: user_of_settings (imports settings)"),
        ("work", "()", "not preloaded: user_of_settings (raises ModuleNotFoundError when it is imported ahead)"),
        ("own", "ImportError", "not preloaded: user_of_settings (imports settings)"),
    ],
    ids=["beside the script", "beside the script, and needs it", "in a folder of PYTHONPATH"],
)
async def test_a_package_that_imports_code_of_the_user_is_imported_by_each_worker(
    node: WarmNode, sentences: Sentences, folder: str, error: str, note: str
) -> None:
    node.package("settings", f"value = 'default'\ntry:\n    from own_settings import value\nexcept {error}:\n    pass")
    node.package("user_of_settings", "import settings")
    (node.folder / "own").mkdir()
    node.env = {**node.env, "PYTHONPATH": f"{node.packages}:{node.folder}/own"}
    (node.folder / folder / "own_settings.py").write_text("value = 'own'")
    cold, warm = await shown_cold_and_warm(node, "import decimal, user_of_settings, settings, wave", "settings.value")
    assert warm == cold == ["own", "own"]
    assert sorted(sentences()) == [_BY_ITSELF, note]


async def test_a_package_that_lists_the_modules_beside_the_script_is_imported_by_each_worker(
    node: WarmNode, sentences: Sentences
) -> None:
    names = "sorted(name for _, name, _ in pkgutil.iter_modules() if 'plug_' in name)"
    listing = f"import importlib, pkgutil\nvalue = {names}"
    node.package("lister", f"{listing}\nfor each in value: importlib.import_module(each)")
    node.package("plug_installed", "")
    (node.work / "plug_own.py").write_text("import plug_inner")
    (node.work / "plug_inner.py").write_text("import decimal")
    cold, warm = await shown_cold_and_warm(node, "import fractions, lister, wave", "lister.value")
    assert warm == cold == ["['plug_inner', 'plug_installed', 'plug_own']"] * 2
    [sentence] = sentences()
    assert sentence in {
        f"not preloaded: lister (imports plug_{each}, which is not installed)" for each in ("own", "inner")
    }


_HARMLESS = {
    "keeps the module of the script, and looks at it later": (
        "import __main__ as script\ndef value():\n    return script.own + script.__file__"
    ),
    "looks for its own variables, and keeps os.environ": (
        "import os\nfrom os import environ\nfound = [name for name in dict(environ) if name.startswith('OWN_')]\n"
        "def value(source=environ):\n    return source['RANK'] + source['ROUND']"
    ),
}


@pytest.mark.parametrize("name", _HARMLESS)
async def test_an_import_that_keeps_nothing_of_one_process_is_done_ahead(
    node: WarmNode, sentences: Sentences, name: str
) -> None:
    node.package("trap", _HARMLESS[name])
    node.script(
        "own = str(os.getpid())\nimport decimal, trap\nprint('value', os.environ['ROUND'], trap.value(), flush=True)"
    )
    await node.start()
    await node.ran()
    await node.forked_ahead()
    assert await node.restart() == [True, True]
    await aeventually(lambda: len(node.values()) == 2, what="two values")
    assert len(set(node.values())) == 2
    assert sentences() == []


_KEEPER = """
import os
class {name}:
    def __init__(self):
        self.pid = os.getpid()
        os.register_at_fork(after_in_child=self.forked)
    def forked(self):
        self.pid = os.getpid()
class Derived({name}):
    pass
state = Derived()
"""


@pytest.mark.parametrize("module", ["filelock._api", "filelock._core._fork"])
@pytest.mark.parametrize(
    ("name", "notes"), [("_ForkState", []), ("Lock", ["not preloaded: filelock (keeps the number of its process)"])]
)
async def test_a_known_object_that_replaces_its_pid_after_a_fork_is_made_ahead(
    node: WarmNode, sentences: Sentences, module: str, name: str, notes: list[str]
) -> None:
    file = node.packages / (module.replace(".", "/") + ".py")
    file.parent.mkdir(parents=True)
    (node.packages / "filelock" / "__init__.py").write_text(f"import {module}")
    file.write_text(_KEEPER.format(name=name))
    node.script(
        f"import decimal, filelock\nis_own = {module}.state.pid == os.getpid()\n"
        "print('value', os.environ['ROUND'], is_own, flush=True)"
    )
    await node.start()
    await node.ran()
    await node.forked_ahead()
    assert await node.restart() == [True, True]
    await aeventually(lambda: node.values() == ["True"] * 2, what="two values")
    assert sentences() == notes


_SEMAPHORE = """
import os, tempfile
from _multiprocessing import SemLock
names = tempfile._RandomNameSequence()
lock = SemLock(0, 0, 1, name=f"/test-{os.getpid()}-{next(names)}", unlink=True)
del lock
"""


@pytest.mark.parametrize(
    ("package", "notes"), [("joblib", []), ("other", ["not preloaded: other (keeps the number of its process)"])]
)
async def test_the_semaphore_with_which_joblib_looks_for_support_is_made_ahead(
    node: WarmNode, sentences: Sentences, package: str, notes: list[str]
) -> None:
    node.package(package, _SEMAPHORE)
    _, warm = await shown_cold_and_warm(node, f"import decimal, {package}, wave", f"next({package}.names)")
    assert len(set(warm)) == 2, "each worker has random names of its own"
    assert sentences() == notes


_ALIASES = """
import importlib.util, sys
class Importer:
    def find_spec(self, name, path=None, target=None):
        return importlib.util.spec_from_loader(name, self) if name == "alias_of_trap" else None
    def create_module(self, spec):
        import trap
        return trap
    def exec_module(self, module):
        pass
sys.meta_path.append(Importer())
import {order}
"""
"""As the packages that setuptools brings with it: one module under two names, with the origin of the second."""


@pytest.mark.parametrize("order", ["trap, alias_of_trap", "alias_of_trap"])
async def test_a_module_with_a_second_name_is_no_other_module(node: WarmNode, sentences: Sentences, order: str) -> None:
    node.package("trap", "value = 1")
    node.package("aliases", _ALIASES.format(order=order))
    node.script("import decimal, aliases")
    await node.start()
    await node.ran()
    await node.forked_ahead()
    assert await node.restart() == [True, True]
    assert sentences() == []


async def test_what_an_import_prints_is_marked_and_not_printed_again(node: WarmNode) -> None:
    node.package(
        "trap", "import sys\nprint('from an import')\nprint('a warning', file=sys.stderr)\nsys.stdout.write('half')"
    )
    node.script("import decimal, trap\nprint()\nprint('value', os.environ['ROUND'], 1, flush=True)")
    await node.start()
    await node.ran()
    await node.forked_ahead()
    assert sorted(node.preload.lines) == ["[preload] a warning", "[preload] from an import"]
    assert await node.restart() == [True, True]
    await aeventually(lambda: len(node.values()) == 2, what="two values")
    assert node.console.lines.count("from an import") == 2


async def test_an_import_that_raises_raises_again_in_the_worker(node: WarmNode) -> None:
    node.package("trap", "import os\nos.environ['SEEN'] = 'yes'\nraise ImportError('no such device')")
    node.script(
        "import decimal\ntry:\n    import trap\nexcept ImportError as error:\n"
        "    print('value', os.environ['ROUND'], error, flush=True)"
    )
    await node.start()
    await node.ran()
    await node.forked_ahead()
    assert await node.restart() == [True, True]
    await aeventually(lambda: node.values() == ["no such device"] * 2, what="two errors")


async def test_a_signal_handler_of_an_import_works_in_the_worker(node: WarmNode) -> None:
    node.package("trap", "import signal\nsignal.signal(signal.SIGUSR1, lambda *_: print('handled', flush=True))")
    node.script("import decimal, trap")
    await node.start()
    await node.ran()
    await node.forked_ahead()
    assert await node.restart() == [True, True]
    await node.ran()
    for child in node.children:
        os.kill(child.pid, signal.SIGUSR1)
    await aeventually(lambda: node.console.lines.count("handled") == 2, what="two handled signals")


_WHEN_MARKED = "import os, sys, time, signal\nif os.path.exists({mark!r}):\n    {action}\n"


def _trap_when_marked(node: WarmNode, action: str) -> None:
    """Install a package that does this only when it is imported after the first round has begun."""
    node.package("trap", _WHEN_MARKED.format(mark=str(node.folder / "mark"), action=action))
    node.script("import decimal, trap\nprint('value', os.environ['ROUND'], 'imported', flush=True)")


async def _mark_after_imports(node: WarmNode) -> None:
    """Have the package trap the next import, when all workers of this round have done theirs."""
    await node.ran()
    await aeventually(lambda: len(node.values()) == node.nproc, what="the imports of all workers")
    (node.folder / "mark").touch()


async def test_an_attribute_function_that_raises_is_named_with_the_cure(node: WarmNode, sentences: Sentences) -> None:
    node.package(
        "trap",
        "import sys\nclass Lazy:\n"
        "    def __getattr__(self, name): raise RuntimeError(name)\n"
        "sys.modules['torch'] = Lazy()\n",
    )
    node.script("import decimal, trap")
    await node.start()
    await node.ran()
    await node.settled()
    assert await node.restart() == [False, False]
    await node.ran()
    assert sentences() == ["not warm: trap.__getattr__ raises RuntimeError in the zygote; let it raise AttributeError"]


async def test_an_import_that_replaces_fork_starts_warm(node: WarmNode, sentences: Sentences) -> None:
    node.package("trap", "import os\ndef fork(): raise RuntimeError\nos.fork = fork\n")
    node.script("import decimal, trap\nassert os.fork is trap.fork")
    await node.start()
    await node.ran()
    await node.forked_ahead()
    assert await node.restart() == [True, True]
    await node.ran()
    assert sentences() == []


async def test_imports_that_hang_are_repeated_by_another_zygote(make_node: MakeNode, sentences: Sentences) -> None:
    node = make_node(limits=Limits(quiet_s=0.2, preload_s=1.0))
    _trap_when_marked(node, "time.sleep(1000)")
    await node.start()
    await _mark_after_imports(node)
    await aeventually(lambda: "took longer" in node.starter._reasons.no_zygote, what="the end of the zygote")
    node.starter._builder._limits = FAST  # on a busy machine they take longer than a second
    (node.folder / "mark").unlink()
    assert await node.restart() == [False, False]
    await node.forked_ahead()
    assert await node.restart() == [True, True]
    await node.ran()
    assert sentences() == ["not warm: the zygote could not be built: the imports took longer than 1 s"]


_ENDS = {
    "os._exit(3)": "exited with code 3",
    "os.kill(os.getpid(), signal.SIGKILL)": "killed by SIGKILL",
    "os.kill(os.getpid(), signal.SIGSEGV)": "killed by SIGSEGV",
}


@pytest.mark.parametrize("action", _ENDS)
async def test_a_zygote_that_ends_during_the_imports_is_built_again(
    node: WarmNode, sentences: Sentences, action: str
) -> None:
    _trap_when_marked(node, action)
    await node.start()
    await _mark_after_imports(node)
    await node.settled()
    (node.folder / "mark").unlink()
    assert await node.restart() == [False, False]
    await node.ran()
    await node.forked_ahead()
    assert await node.restart() == [True, True]
    await node.ran()
    [sentence] = sentences()
    assert sentence.startswith("not warm: the zygote could not be built: it ended during the imports")
    assert _ENDS[action] in sentence


async def test_a_round_during_a_slow_build_is_cold_and_the_build_goes_on(node: WarmNode, sentences: Sentences) -> None:
    mark = node.folder / "mark"
    _trap_when_marked(node, f"while os.path.exists({str(mark)!r}): time.sleep(0.01)")
    await node.start()
    await _mark_after_imports(node)
    await aeventually(lambda: node.starter._zygote.is_building, what="a build")
    assert await node.restart() == [False, False]
    await node.ran()
    mark.unlink()
    await node.forked_ahead()
    assert await node.restart() == [True, True]
    await node.ran()
    assert sentences() == ["not warm: the imports are not repeated yet"]


async def test_too_many_builds_keep_all_starts_cold(make_node: MakeNode, sentences: Sentences) -> None:
    node = make_node(limits=Limits(quiet_s=0.2, max_builds=1))
    node.package("trap", "import os\nvalue = os.environ.get('RANK')")
    node.script("import decimal, trap")
    await node.start()
    await node.ran()
    await aeventually(lambda: node.starter._reasons.refusal, what="a refusal")
    assert await node.restart() == [False, False]
    await node.ran()
    assert sentences()[1:] == ["not warm: 1 zygotes in a row led to no warm start"]


async def test_a_zygote_that_led_to_a_warm_start_does_not_count(make_node: MakeNode) -> None:
    node = make_node(limits=Limits(quiet_s=0.2, max_builds=1))
    node.script()
    await node.start()
    for _ in range(3):
        await node.forked_ahead()
        assert await node.restart() == [True, True]
        await node.ran()
        await node.forked_ahead()
        ready = node.starter._zygote.ready
        assert ready
        for pid in (node.zygote(), *node.waiting()):
            os.kill(pid, signal.SIGKILL)
        await ready.zygote.child.exit  # without it, the next workers are cold, but do not record
        await aeventually(lambda: not node.waiting(), what="the end of the workers that waited")
        assert await node.restart() == [False, False]
        await node.ran()


async def test_an_import_that_returns_in_a_forked_child_too_runs_the_script_once(node: WarmNode) -> None:
    """In a cold worker, the child runs the script as well; the zygote must not add to them."""
    _trap_when_marked(node, "os.fork()")
    await node.start()
    await _mark_after_imports(node)
    await node.settled()
    (node.folder / "mark").unlink()
    await node.restart()
    await node.ran()
    assert node.run_count() == 4
