"""The traps of a fork after imports: each test fails if the warm start has no cure for one of them."""

import ast
import multiprocessing
import os
import shutil
import sys
import time
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from testing.pythons import need_python
from testing.waiting import aeventually
from tests.integration.warm_start.shown import (
    SHOW,
    check_same_in_each_worker,
    rounds,
    shown,
    shown_cold_and_warm,
)
from tests.integration.warm_start.warm_node import WarmNode

Sentences = Callable[[], list[str]]

# --- random numbers --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("imports", "expression"),
    [
        ("import random", "random.random()"),
        ("import numpy", "numpy.random.rand()"),
        ("import entropy", "entropy.generator.random()"),
        ("import multiprocessing", "multiprocessing.current_process().authkey.hex()"),
        ("import multiprocess.process", "multiprocess.process.current_process().authkey.hex()"),
        ("import tempfile", "tempfile.mktemp()"),
        ("import uuid", "uuid.uuid4()"),
        ("import secrets", "secrets.token_hex()"),
    ],
)
async def test_each_rank_draws_its_own_numbers_in_each_round(node: WarmNode, imports: str, expression: str) -> None:
    node.package("entropy", "import random\nclass Holder: pass\ngenerator = random.Random()\n")
    # The package `multiprocess` is a copy of Python's, with another pickle.
    shutil.copytree(Path(multiprocessing.__file__).parent, node.packages / "multiprocess")
    drawn = await rounds(node, imports, expression)
    assert len(set(drawn)) == len(drawn)


@pytest.mark.parametrize(
    "code",
    [
        "import random\ngenerator = random.Random(5)\n",
        "import numpy\nclass A:\n    pass\nA.generator = numpy.random.default_rng()\n",
        "import numpy\ngenerators = [numpy.random.RandomState()]\n",
    ],
)
async def test_a_package_with_a_generator_of_an_unknown_seed_is_not_preloaded(
    node: WarmNode, sentences: Sentences, code: str
) -> None:
    node.package("seeded", code)
    cold, warm = await shown_cold_and_warm(node, "import numpy, seeded", "len(str(seeded))")
    assert warm == cold
    assert sentences() == ["not preloaded: seeded (keeps a random generator with a seed of its own)"]


async def test_a_global_generator_that_an_import_has_seeded_keeps_that_seed(
    node: WarmNode, sentences: Sentences
) -> None:
    node.package("reproducible", "import random, numpy\nrandom.seed(7)\nnumpy.random.seed(7)\n")
    cold, warm = await shown_cold_and_warm(
        node, "import random, numpy, reproducible", "random.random(), numpy.random.rand()"
    )
    assert warm == cold
    assert sentences() == ["not preloaded: reproducible (seeds or uses a global random generator when it is imported)"]


# --- modules ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["decimal", "socket", "ctypes", "sysconfig"])
async def test_a_module_beside_the_script_is_found_as_in_a_cold_start(
    node: WarmNode, sentences: Sentences, name: str
) -> None:
    node.script(f"import decimal\nimport {name}" + SHOW.format(f"{name}.__file__"))
    await node.start()
    await node.forked_ahead()
    hiding = node.work / f"{name}.py"
    hiding.write_text("")
    assert await node.restart() == [False, False]
    assert await shown(node) == [str(hiding)] * 2
    assert sentences()[0] == f"not warm: {name} in {node.work} would hide the imported module"


async def test_a_module_in_a_folder_that_the_script_adds_is_found_as_in_a_cold_start(node: WarmNode) -> None:
    (node.work / "lib").mkdir()
    node.script(
        "import sys, decimal\nsys.path.insert(0, 'lib')\nimport colorsys\nimport fractions"
        + SHOW.format("colorsys.__file__")
    )
    await node.start()
    await node.forked_ahead()
    (node.work / "lib" / "colorsys.py").write_text("")
    assert await node.restart() == [False, False]
    assert await shown(node) == [f"{node.work}/lib/colorsys.py"] * 2


async def test_the_module_that_the_script_has_from_elsewhere_is_not_replaced(node: WarmNode) -> None:
    (node.work / "lib").mkdir()
    (node.work / "lib" / "chosen.py").write_text("")
    node.package("chosen", "")
    cold, warm = await shown_cold_and_warm(
        node, "import sys\nsys.path.insert(0, 'lib')\nimport chosen, fractions", "chosen.__file__"
    )
    assert warm == cold


async def test_a_module_in_the_archive_of_the_script_is_found_as_in_a_cold_start(node: WarmNode) -> None:
    main = node.script("import decimal, random" + SHOW.format("random.__file__")).read_text()
    with zipfile.ZipFile(node.work / "train.py", "w") as archive:
        archive.writestr("__main__.py", main)
        archive.writestr("fractions.py", "")
    await node.start()
    cold = await shown(node)
    await node.settled()
    with zipfile.ZipFile(node.work / "train.py", "a") as archive:
        archive.writestr("random.py", "")
    assert await node.restart() == [False, False]
    assert await shown(node) == [f"{node.work}/train.py/random.py"] * 2 != cold


async def test_the_packages_of_a_user_are_imported_by_each_worker(node: WarmNode) -> None:
    package = node.work / "mine"
    package.mkdir()
    (package / "__init__.py").write_text("from . import part")
    (package / "part.py").write_text("version = 1")
    node.env["PYTHONPATH"] += os.pathsep + str(node.work)
    cold, _ = await shown_cold_and_warm(node, "import decimal, mine.part", "mine.part.version")
    assert cold == ["1", "1"]
    (package / "part.py").write_text("version = 22")
    await node.forked_ahead()
    assert await node.restart() == [True, True]
    assert await shown(node) == ["22", "22"]


async def test_a_package_that_changes_while_a_worker_waits_is_imported_anew(
    node: WarmNode, sentences: Sentences
) -> None:
    file = node.package("changing", "version = 1")
    node.script("import changing, fractions" + SHOW.format("changing.version"))
    await node.start()
    await node.forked_ahead()
    file.write_text("version = 22")
    assert await node.restart() == [False, False]
    assert await shown(node) == ["22", "22"]
    assert sentences()[0] == f"not warm: {file} has changed since it was imported"


# --- facts of one process --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "expression", "reason"),
    [
        ("import os\nvalue = os.getpid()", "worker.value == os.getpid()", "keeps the number of its process"),
        ("from os import getpid\nvalue = getpid()", "worker.value == os.getpid()", "keeps the number of its process"),
        (
            "import multiprocessing\nvalue = multiprocessing.current_process().pid",
            "worker.value == os.getpid()",
            "keeps the number of its process",
        ),
        (
            "import multiprocessing.util as util\nvalue = util.Finalize(None, print, exitpriority=1)",
            "worker.value._pid == os.getpid()",
            "keeps the number of its process",
        ),
        (
            "from threading import get_native_id\nvalue = get_native_id()",
            "worker.value == os.getpid()",
            "keeps the number of its process",
        ),
        ("import posix\nvalue = posix.getpid()", "worker.value == os.getpid()", "keeps the number of its process"),
        (
            "import _thread\nvalue = _thread.get_native_id()",
            "worker.value == os.getpid()",
            "keeps the number of its process",
        ),
        (
            "import threading\nvalue = threading.main_thread().native_id",
            "worker.value == os.getpid()",
            "keeps the number of its process",
        ),
        ("import os\nvalue = os.getsid(0)", "worker.value == os.getsid(0)", "keeps the number of its process"),
        (
            "import logging\nclass A:\n    value = logging.makeLogRecord({})",
            "worker.A.value.process == os.getpid()",
            "keeps a log record, which has the number of its process",
        ),
        (
            "import psutil\nvalue = psutil.Process()",
            "worker.value.pid == os.getpid()",
            "keeps the number of its process",
        ),
        (
            "import __main__\nvalue = hasattr(__main__, '__file__')",
            "worker.value",
            "looks at the script when it is imported",
        ),
    ],
)
async def test_a_package_that_keeps_a_fact_of_one_process_is_not_preloaded(
    node: WarmNode, sentences: Sentences, code: str, expression: str, reason: str
) -> None:
    await check_same_in_each_worker(node, code, expression)
    assert sentences() == [f"not preloaded: worker ({reason})"]


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (
            "import mmap\nshared = mmap.mmap(-1, 4096)",
            "leaves memory that all workers would share: /dev/zero (deleted)",
        ),
        (
            "import multiprocessing\nlock = multiprocessing.get_context('fork').Lock()",
            "leaves memory that all workers would share",
        ),
    ],
)
async def test_a_state_that_a_fork_shares_or_loses_is_a_reason(
    node: WarmNode, sentences: Sentences, code: str, reason: str
) -> None:
    node.package("sharing", code)
    node.script("import sharing")
    await node.start()
    await aeventually(lambda: node.starter._reasons.refusal, what="a refusal")
    assert f"importing sharing {reason}" in sentences()[-1]


async def test_a_sitecustomize_that_reads_the_rank_is_a_reason(node: WarmNode, sentences: Sentences) -> None:
    node.package("sitecustomize", "import os\nos.environ['DEVICE'] = os.environ['RANK']")
    node.script("import decimal" + SHOW.format("os.environ['DEVICE']"))
    await node.start()
    await aeventually(lambda: node.starter._reasons.refusal, what="a refusal")
    assert await node.restart() == [False, False]
    assert await shown(node) == ["0", "1"]
    assert "RANK" in sentences()[-1]


async def test_the_locale_that_python_chooses_is_no_reason(node: WarmNode) -> None:
    """In the locale C it sets LC_CTYPE before it runs anything."""
    node.env.pop("LANG")
    cold, warm = await shown_cold_and_warm(node, "import decimal", "os.environ.get('LC_CTYPE')")
    assert warm == cold == ["C.UTF-8", "C.UTF-8"]


async def test_an_import_that_ignores_the_end_of_children_is_done_ahead(node: WarmNode, sentences: Sentences) -> None:
    node.package("ignores", "import signal\nsignal.signal(signal.SIGCHLD, signal.SIG_IGN)")
    cold, warm = await shown_cold_and_warm(
        node, "import ignores, signal, fractions", "signal.getsignal(signal.SIGCHLD)"
    )
    assert warm == cold
    assert sentences() == []


async def test_a_usercustomize_is_a_reason(node: WarmNode, sentences: Sentences) -> None:
    node.package("usercustomize", "")
    script = node.script("import decimal")
    await node.start(sys._base_executable, script)  # type: ignore[attr-defined]  # a virtual environment skips it
    await aeventually(lambda: node.starter._reasons.refusal or node.starter._zygote.ready, what="a decision")
    assert sentences() == ["not warm: a usercustomize module runs before the script"]


@pytest.mark.nightly
async def test_a_debug_allocator_is_a_reason_on_python_3_8(node: WarmNode, sentences: Sentences) -> None:
    python = need_python("3.8")
    script = node.script("import decimal")
    await node.start(python, "-X", "dev", script)
    await aeventually(lambda: node.starter._reasons.refusal or node.starter._zygote.ready, what="a decision")
    assert "not warm: Python 3.8 crashes" in sentences()[-1]


@pytest.mark.parametrize("options", [["-v"], ["-X", "importtime"], ["-X", "perf"]])
async def test_an_option_that_writes_about_imports_is_a_reason(
    node: WarmNode, sentences: Sentences, options: list[str]
) -> None:
    script = node.script("import decimal")
    await node.start(sys.executable, *options, script)
    await aeventually(lambda: node.starter._reasons.refusal or node.starter._zygote.ready, what="a decision")
    assert sentences() == ["not warm: an option has Python write about its imports"]


# --- state that imports leave ----------------------------------------------------------------------------------------

_STATE = """
import gc, locale, os, resource, signal, sys, threading, warnings
os.umask(0o27); gc.disable(); gc.set_threshold(123); sys.setrecursionlimit(1234); sys.setswitchinterval(0.02)
locale.setlocale(locale.LC_ALL, 'C'); warnings.simplefilter('error')
signal.signal(signal.SIGUSR1, print); signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR2})
resource.setrlimit(resource.RLIMIT_CORE, (0, 0)); os.nice(1)
os.environ['SET'] = '1'; os.environ['LANG'] = 'changed'; os.environ.pop('REMOVED')
sys.excepthook = print; threading.stack_size(1 << 20)
"""
_STATE_SHOWN = (
    "os.umask(0), gc.isenabled(), gc.get_threshold(), sys.getrecursionlimit(), sys.getswitchinterval(), "
    "locale.setlocale(locale.LC_ALL), warnings.filters[0], signal.getsignal(signal.SIGUSR1), "
    "signal.pthread_sigmask(signal.SIG_BLOCK, ()), resource.getrlimit(resource.RLIMIT_CORE), os.nice(0), "
    "[pair for pair in os.environ.items() if pair[0] not in ('RANK', 'ROUND')], sys.excepthook, threading.stack_size()"
)


async def test_a_worker_has_the_state_that_imports_leave(node: WarmNode) -> None:
    node.env["REMOVED"] = "1"
    node.package("state", _STATE)
    imports = "import gc, locale, os, resource, signal, sys, threading, warnings, state"
    cold, warm = await shown_cold_and_warm(node, imports, _STATE_SHOWN)
    assert warm == cold


async def test_sysconfig_has_the_folders_of_the_virtual_environment(node: WarmNode) -> None:
    """The module `site` sets the prefix of a virtual environment, and sysconfig keeps it when it is imported."""
    assert sys.prefix != sys.base_prefix, "run the tests with the Python of a virtual environment"
    shown = "sorted(sysconfig.get_paths().items()), sysconfig.get_config_var('base')"
    cold, warm = await shown_cold_and_warm(node, "import decimal, sysconfig", shown)
    assert sys.prefix in cold[0]
    assert warm == cold


async def test_libraries_with_threads_of_their_own_work_after_the_fork(node: WarmNode) -> None:
    node.package("uses_threads", "import numpy\nnumpy.ones((600, 600)) @ numpy.ones((600, 600))\n")
    _, warm = await shown_cold_and_warm(
        node, "import numpy, uses_threads", "(numpy.ones((600, 600)) @ numpy.ones((600, 600))).sum()"
    )
    assert warm == ["216000000.0"] * 2


@pytest.mark.nightly
@pytest.mark.parametrize("version", ["3.12", "3.13"])
async def test_a_thread_that_is_allowed_makes_no_error_of_a_fork(node: WarmNode, version: str) -> None:
    python = need_python(version)
    name = "ctypes.CDLL(None).prctl(15, b'jemalloc_bg_thd', 0, 0, 0)"
    node.package(
        "with_thread",
        "import ctypes, threading\nready, end = threading.Event(), threading.Event()\n"
        f"def run():\n    {name}\n    ready.set()\n    end.wait()\n"
        "threading.Thread(target=run, daemon=True).start()\nready.wait()\n",
    )
    words = (python, "-W", "error", node.script("import with_thread, fractions"))
    await node.start(*words)
    await node.forked_ahead()
    assert await node.restart(*words) == [True, True], node.starter.reason


async def test_what_imports_print_appears_once_and_not_in_the_workers(node: WarmNode) -> None:
    node.package("talkative", "import ctypes, os\nprint('from Python')\nctypes.CDLL(None).puts(b'from C')\n")
    await shown_cold_and_warm(node, "import talkative", "1")
    assert node.preload.data.count(b"from Python") == node.preload.data.count(b"from C") == 1
    await node.forked_ahead()
    assert await node.restart() == [True, True]
    await node.ran()
    await node.stop()
    assert node.console.data.count(b"from Python") == 2


async def test_processes_of_the_warm_start_have_names_of_their_own(node: WarmNode) -> None:
    cold, warm = await shown_cold_and_warm(node, "import decimal", "open('/proc/self/comm').read().strip()")
    assert warm == cold
    await node.forked_ahead()
    names = [psutil.Process(pid).name() for pid in (node.zygote(), *node.waiting())]
    assert names == ["ej-zygote", "ej-preforked", "ej-preforked"]


async def test_a_package_that_asks_psutil_and_keeps_no_process_is_preloaded(
    node: WarmNode, sentences: Sentences
) -> None:
    node.package("counts", "import psutil\nprocessors = len(psutil.Process().cpu_affinity())")
    await shown_cold_and_warm(node, "import counts, fractions", "counts.processors")
    assert sentences() == []


async def test_a_name_that_an_import_gives_to_its_process_is_that_of_the_worker(node: WarmNode) -> None:
    node.package("names", "import ctypes\nctypes.CDLL(None).prctl(15, b'trainer', 0, 0, 0)")
    cold, warm = await shown_cold_and_warm(node, "import names, fractions", "open('/proc/self/comm').read().strip()")
    assert warm == cold == ["trainer", "trainer"]


async def test_the_times_of_log_records_begin_with_the_worker(node: WarmNode) -> None:
    node.script("import logging, logging.handlers" + SHOW.format("logging._startTime"))
    await node.start()
    await node.forked_ahead()
    await node.stop()
    began_s = time.time()
    assert await node.start() == [True, True]
    assert [float(each) >= began_s for each in await shown(node)] == [True, True]


async def test_children_get_the_environment_in_the_order_of_this_round(node: WarmNode) -> None:
    node.env |= {"FIRST": "1", "SECOND": "2"}
    names = "[line.partition('=')[0] for line in subprocess.check_output('env', text=True).split()]"
    node.script("import subprocess" + SHOW.format(f"list(os.environ), {names}"))
    await node.start()
    await node.forked_ahead()
    node.env = dict(reversed(node.env.items()))
    assert await node.restart() == [True, True]
    python, children = ast.literal_eval((await shown(node))[0].replace("] [", "], ["))
    assert python.index("SECOND") < python.index("FIRST")
    assert [name for name in children if name in python] == python


async def test_an_archive_that_was_replaced_is_read_anew(node: WarmNode) -> None:
    archive = node.work / "lib.zip"
    node.env["PYTHONPATH"] += os.pathsep + str(archive)
    _write_archive(archive, padding="", version=1)
    cold, _ = await shown_cold_and_warm(node, "import decimal, zipped, fractions", "zipped.version")
    await node.forked_ahead()
    _write_archive(archive, padding="x" * 1000, version=22)
    assert await node.restart() == [True, True]
    assert (cold, await shown(node)) == (["1", "1"], ["22", "22"])


def _write_archive(path: Path, *, padding: str, version: int) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("padding", padding)
        archive.writestr("zipped.py", f"version = {version}")


async def test_a_worker_gets_the_descriptors_of_its_command(node: WarmNode, monkeypatch: pytest.MonkeyPatch) -> None:
    reader, writer = os.pipe()
    plain = node.command
    monkeypatch.setattr(node, "command", lambda argv, rank: replace(plain(argv, rank), fds=(writer, reader)))
    try:
        await shown_cold_and_warm(
            node, "import decimal", "os.write(3, b'x'), os.fstat(4).st_ino, sorted(os.listdir('/proc/self/fd'))[:6]"
        )
        assert os.read(reader, 10) == b"xxxx"
    finally:
        os.close(reader)
        os.close(writer)


# --- no other run of the script --------------------------------------------------------------------------------------


async def test_a_zygote_that_fails_does_not_run_the_script(node: WarmNode) -> None:
    second = f"if os.path.exists({str(node.folder / 'second')!r}): raise ValueError('broken')"
    node.package("sitecustomize", f"import os\n{second}\nopen({str(node.folder / 'second')!r}, 'w').close()")
    node.nproc = 1
    node.script("import decimal")
    await node.start()
    await node.ran()
    await aeventually(lambda: b"broken" in node.preload.data, what="the error")
    await node.settled()
    assert len(node.run_files()) == 1


@pytest.mark.parametrize("code", ["sys.excepthook = broken", "os._exit = broken"])
async def test_a_zygote_whose_error_is_not_shown_does_not_run_the_script(node: WarmNode, code: str) -> None:
    node.package("breaks", f"import os, sys\ndef broken(*_):\n    raise ValueError('broken')\n{code}")
    node.package("fails", "import socket\nsocket.socket.sendmsg = None")
    node.nproc = 1
    node.script("import breaks, fails")
    await node.start()
    await node.ran()
    await aeventually(lambda: "could not be built" in node.starter._reasons.no_zygote, what="the end of a zygote")
    assert len(node.run_files()) == 1


async def test_an_import_that_replaces_a_function_of_python_is_the_reason_for_a_cold_start(node: WarmNode) -> None:
    node.package("fails", "import gc\ngc.freeze = None")
    node.nproc = 1
    node.script("import fails")
    await node.start()
    await node.ran()
    reason = (
        "a function of Python that an import has replaced raises TypeError in the zygote; change that in the script"
    )
    await aeventually(lambda: node.starter._reasons.refusal.startswith(reason), what="the reason")
    assert len(node.run_files()) == 1


async def test_a_worker_that_cannot_be_prepared_does_not_run_the_script(node: WarmNode, sentences: Sentences) -> None:
    node.package(
        "failing",
        "import random, os\nhere = os.getppid\nfirst = here()\nclass R(random.Random):\n    def seed(self, *a):\n"
        "        super().seed(*a)\n        if here() != first and 'done' in globals(): raise KeyError('seed')\n"
        "generator = R()\ndone = 1\nos.register_at_fork(after_in_child=lambda: globals().update(first=0))\n",
    )
    node.script("import failing")
    await node.start()
    await node.forked_ahead()
    assert await node.restart() == [False, False]
    await node.ran()
    assert "KeyError: 'seed'" in sentences()[0]
