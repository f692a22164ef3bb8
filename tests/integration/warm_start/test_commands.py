"""Commands that cannot start warm: the script runs once a rank in each round, and the log has the reason once."""

import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from elasticjob_agent.supervisor import CommandNotFound
from elasticjob_agent.warm_start.limits import Limits
from testing.waiting import aeventually
from tests.integration.warm_start.conftest import MakeNode
from tests.integration.warm_start.shown import SHOW, shown
from tests.integration.warm_start.warm_node import WarmNode

Sentences = Callable[[], list[str]]
PYTHON = sys.executable


def _wrapper(node: WarmNode, text: str) -> str:
    path = node.work / "run.sh"
    path.write_text(text)
    path.chmod(0o755)
    return str(path)


def _python_with(*options: str) -> Callable[[WarmNode, Path], list[str]]:
    return lambda _, script: [PYTHON, *options, str(script)]


def _touching_wrapper(node: WarmNode, script: Path) -> list[str]:
    return [_wrapper(node, f'#!/bin/bash\ntouch "$PWD/touched-$$-$ROUND"\nexec {PYTHON} {script}\n')]


def _shim(node: WarmNode, script: Path) -> list[str]:
    """A `python` on the PATH that looks for the real one, as pyenv's does."""
    folder = node.folder / "shims"
    folder.mkdir(exist_ok=True)
    shim = folder / "python"
    shim.write_text(f'#!/usr/bin/env bash\nset -e\nexec "{PYTHON}" "$@"\n')
    shim.chmod(0o755)
    node.env = {**node.env, "PATH": f"{folder}:/usr/bin:/bin"}
    return ["python", str(script)]


_OWN_WAY = "starts Python in its own way"
_NO_REPORT = "Python did not report itself"
_COMMANDS: dict[str, tuple[Callable[[WarmNode, Path], list[str]], str]] = {
    "-I": (_python_with("-I"), "the option -I keeps Python"),
    "-E": (_python_with("-E"), "the option -E keeps Python"),
    "-S": (_python_with("-S"), "the option -S keeps Python"),
    "-Is": (_python_with("-Is"), "the option -I keeps Python"),
    "-W error -sE": (_python_with("-W", "error", "-sE"), "the option -E keeps Python"),
    "an empty environment": (
        lambda _, script: ["env", "-i", "RANK={rank}", "ROUND={round}", PYTHON, str(script)],
        _NO_REPORT,
    ),
    "no PYTHONPATH": (lambda _, script: ["env", "-u", "PYTHONPATH", PYTHON, str(script)], _NO_REPORT),
    "env": (lambda _, script: ["env", "FOO=1", PYTHON, str(script)], f"env {_OWN_WAY}"),
    "a first line with an option": (
        lambda node, script: [_wrapper(node, f"#!{PYTHON} -I\n{script.read_text()}")],
        _NO_REPORT,
    ),
    "bash": (lambda node, script: ["bash", _wrapper(node, f"{PYTHON} {script}\n")], f"bash {_OWN_WAY}"),
    "bash that executes Python": (
        lambda node, script: ["bash", _wrapper(node, f"exec {PYTHON} {script}\n")],
        f"bash {_OWN_WAY}",
    ),
    "a wrapper that touches a file": (_touching_wrapper, f"run.sh {_OWN_WAY}"),
    "a shim": (_shim, f"python {_OWN_WAY}"),
    "a script without a first line": (
        lambda node, script: ["sh", "-c", f"exec {_wrapper(node, f'{PYTHON} {script}')}"],
        f"sh {_OWN_WAY}",
    ),
}


@pytest.mark.parametrize("name", _COMMANDS)
async def test_a_command_that_cannot_start_warm_runs_once_a_rank(
    make_node: MakeNode, sentences: Sentences, name: str
) -> None:
    make, reason = _COMMANDS[name]
    node = make_node(limits=Limits(quiet_s=0.2, greeting_s=0.5 if reason == _NO_REPORT else 60.0))
    argv = make(node, node.script())
    node.starts_itself = False
    assert await node.start(*argv) == [False, False]
    await node.ran()
    await aeventually(lambda: node.starter._reasons.refusal, what="a refusal")
    for _ in range(2):
        assert await node.restart(*argv) == [False, False]
        await node.ran()
    assert node.run_count() == 6
    assert len(list(node.work.glob("touched-*"))) in {0, 6}
    [sentence] = sentences()
    assert reason in sentence
    assert node.starter.reason in sentence


async def test_a_script_that_names_python_in_its_first_line_starts_warm(node: WarmNode) -> None:
    script = node.script()
    script.write_text(f"#!{PYTHON}\n{script.read_text()}")
    script.chmod(0o755)
    await node.start(script)
    await node.ran()
    await node.forked_ahead()
    assert await node.restart(script) == [True, True]
    await node.ran()


@pytest.mark.parametrize(
    ("run", "part", "notes"),
    [
        ("app.train", "def again():\n    from app import train\n    return train.__name__", []),
        ("app", "def again():\n    import app.__main__ as train\n    return train.__name__", []),
        (
            "app.train",
            "from app import train\ndef again():\n    return train.__name__",
            ["not preloaded: app (imports the module that -m runs)"],
        ),
    ],
)
async def test_an_installed_module_that_is_the_script_is_not_imported_ahead(
    node: WarmNode, sentences: Sentences, run: str, part: str, notes: list[str]
) -> None:
    """Python warns of a module that is there before `-m` runs it."""
    app = node.packages / "app"
    app.mkdir()
    (app / "__init__.py").write_text("")
    (app / "part.py").write_text(part)
    text = node.script("import app.part\nname = app.part.again()\nimport fractions" + SHOW.format("name")).read_text()
    file = app / ("train.py" if run == "app.train" else "__main__.py")
    file.write_text("if __name__ == '__main__':\n" + textwrap.indent(text, "    "))
    words = (PYTHON, "-W", "error::RuntimeWarning", "-m", run)
    await node.start(*words)
    cold = await shown(node)
    await node.forked_ahead()
    assert await node.restart(*words) == [True, True]
    assert await shown(node) == cold
    assert sentences() == notes


@pytest.mark.parametrize("module", ["app.train", "app.__main__"])
async def test_an_installed_program_is_never_imported_ahead(node: WarmNode, module: str) -> None:
    """Its code may do the work of the script: the first is the script itself, as an installed file."""
    app, log = node.packages / "app", node.folder / "log"
    app.mkdir()
    (app / "__init__.py").write_text("")
    text = node.script(f"import {module}, fractions").read_text()
    note = (
        f"import os\nfd = os.open({str(log)!r}, os.O_WRONLY | os.O_CREAT | os.O_APPEND)\n"
        "os.write(fd, __name__.encode() + b'\\n')\nos.close(fd)\n"
    )
    (app / "__main__.py").write_text(note)
    script = app / "train.py"
    script.write_text(note + "if __name__ == '__main__':\n" + textwrap.indent(text, "    "))
    await node.start(PYTHON, script)
    await node.ran()
    await node.forked_ahead()
    assert await node.restart(PYTHON, script) == [True, True]
    await node.ran()
    await aeventually(lambda: len(log.read_text().splitlines()) >= 8, what="two lines of each worker")
    assert sorted(log.read_text().splitlines()) == sorted(4 * ["__main__", module])


async def test_a_missing_command_is_the_error_of_a_cold_start(node: WarmNode, sentences: Sentences) -> None:
    for _ in range(2):
        with pytest.raises(CommandNotFound):
            await node.start("no-such-program")
    assert sentences() == ["not warm: no-such-program was not found"]


async def test_a_worker_that_ends_before_python_reports_itself_is_no_reason_against_the_next(node: WarmNode) -> None:
    script = node.script()
    await node.start("env", "-u", "PYTHONPATH", PYTHON, "-c", "pass")
    await node.settled()
    assert node.starter._reasons.refusal == ""
    await node.restart()
    await node.forked_ahead()
    assert await node.restart(PYTHON, script) == [True, True]
