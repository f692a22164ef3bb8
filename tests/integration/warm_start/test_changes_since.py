"""Changes since the imports that make none of their files newer: each worker has them as in a cold start."""

import os
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from testing.pythons import need_python
from testing.waiting import aeventually
from tests.integration.warm_start.shown import SHOW, shown
from tests.integration.warm_start.warm_node import WarmNode

Sentences = Callable[[], list[str]]
_PYTHON = os.path.realpath(sys.executable)


async def _forked_ahead(node: WarmNode, imports: str, expression: str, *argv: str | Path) -> list[str]:
    """Run a round of this script, wait for the workers of the next one, and return what the round shows."""
    node.script(imports + SHOW.format(expression))
    await node.start(*argv)
    before = await shown(node)
    await node.forked_ahead()
    return before


async def test_a_package_that_is_installed_later_is_found_by_another_one(node: WarmNode, sentences: Sentences) -> None:
    node.package("optional", "try:\n    import extra\nexcept ImportError:\n    extra = None\n")
    assert await _forked_ahead(node, "import optional, fractions", "optional.extra is None") == ["True", "True"]
    node.package("extra", "")
    assert await node.restart() == [False, False]
    assert await shown(node) == ["False", "False"]
    assert sentences() == [f"not warm: {node.packages} has changed since it was imported"]


async def test_a_package_that_is_installed_later_hides_one_of_a_later_folder(node: WarmNode) -> None:
    second = node.folder / "second" / "site-packages"
    second.mkdir(parents=True)
    (second / "lib.py").write_text("version = 1")
    node.env["PYTHONPATH"] += os.pathsep + str(second)
    await _forked_ahead(node, "import lib, fractions", "lib.version")
    node.package("lib", "version = 2")
    assert await node.restart() == [False, False]
    assert await shown(node) == ["2", "2"]


async def test_a_package_that_has_changed_with_the_same_time_is_imported_anew(node: WarmNode) -> None:
    file = node.package("changing", "version = 1")
    os.utime(file, (10**9, 10**9))
    await _forked_ahead(node, "import changing, fractions", "changing.version")
    file.write_text("version = 2")
    os.utime(file, (10**9, 10**9))
    assert await node.restart() == [False, False]
    assert await shown(node) == ["2", "2"]


async def test_a_package_that_changes_during_the_imports_is_imported_anew(node: WarmNode) -> None:
    """The first two imports of `swap` are those of the ranks. The third one, of the zygote, replaces a package."""
    file = node.packages / "changing" / "__init__.py"
    file.parent.mkdir()
    first, second, replacement = (node.folder / name for name in ("first", "second", "replacement"))
    for each, text in {file: "version = 1", first: "", second: "", replacement: "version = 2"}.items():
        each.write_text(text)
        os.utime(each, (10**9, 10**9))
    moves = {str(first): f"{first}-used", str(second): f"{second}-used", str(replacement): str(file)}
    node.package(
        "swap",
        "import changing, os\n"
        f"for source, target in {moves!r}.items():\n"
        "    try: os.rename(source, target)\n"
        "    except OSError: continue\n"
        "    break\n",
    )
    assert await _forked_ahead(node, "import changing, swap", "changing.version") == ["1", "1"]
    assert not replacement.exists()
    await node.restart()
    assert await shown(node) == ["2", "2"]


async def test_an_installed_archive_that_was_replaced_is_imported_anew(node: WarmNode) -> None:
    egg = node.packages / "lib.egg"
    _write_archive(egg, 1)
    node.env["PYTHONPATH"] += os.pathsep + str(egg)
    await _forked_ahead(node, "import zipped, fractions", "zipped.version")
    _write_archive(egg, 2)
    assert await node.restart() == [False, False]
    assert await shown(node) == ["2", "2"]


def _write_archive(path: Path, version: int) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("zipped.py", f"version = {version}")


async def test_an_import_that_counts_the_processors_is_repeated_when_they_change(
    node: WarmNode, sentences: Sentences
) -> None:
    """Kubernetes moves a running pod to other processors when a pod with processors of its own comes or goes."""
    processors = sorted(os.sched_getaffinity(0))
    if len(processors) < 2:
        pytest.skip("this machine has one processor")
    node.package("counts", "import os\nnumber = len(os.sched_getaffinity(0))")
    await _forked_ahead(node, "import counts, fractions", "counts.number")
    try:
        for process in (psutil.Process(), *psutil.Process().children(recursive=True)):
            process.cpu_affinity(processors[:1])
        assert await node.restart() == [False, False]
        assert await shown(node) == ["1", "1"]
    finally:
        psutil.Process().cpu_affinity(processors)
    assert sentences() == ["not warm: the processors of this pod are not those that the imports had"]


async def test_a_link_to_another_python_starts_that_one(node: WarmNode, sentences: Sentences) -> None:
    other = need_python("3.12")
    link = node.folder / "python"
    link.symlink_to(_PYTHON)
    words = (link, node.work / "train.py")
    await _forked_ahead(node, "import decimal, fractions", "sys.version_info[1]", *words)
    link.unlink()
    link.symlink_to(other)
    assert await node.restart(*words) == [False, False]
    assert await shown(node) == ["12", "12"]
    assert sentences() == ["not warm: its program is another one than that of the first worker"]


async def test_a_tool_that_monitors_python_before_the_script_is_a_reason(node: WarmNode, sentences: Sentences) -> None:
    python = need_python("3.12")
    node.package("sitecustomize", "import sys\nsys.monitoring.use_tool_id(sys.monitoring.COVERAGE_ID, 'coverage')\n")
    await node.start(python, node.script("import decimal"))
    await aeventually(lambda: node.starter._reasons.refusal or node.starter._zygote.ready, what="a decision")
    assert sentences() == ["not warm: a debugger or coverage tool is active before the script begins"]
