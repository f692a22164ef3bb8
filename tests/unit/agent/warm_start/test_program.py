"""The program of a command: Python, a script that names it in its first line, or something else."""

from pathlib import Path

import pytest

from elasticjob_agent.warm_start.program import Program, find_program


@pytest.fixture
def python(tmp_path: Path) -> Path:
    """Return a program file, with a link to it on the PATH `tmp_path/bin`."""
    program = tmp_path / "python3.11"
    program.write_bytes(b"\x7fELF...")
    program.chmod(0o755)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").symlink_to(program)
    return program


def _script(folder: Path, head: str, name: str = "train") -> Path:
    path = folder / name
    path.write_text(head + "\nprint()\n")
    path.chmod(0o755)
    return path


def _find(word: str, folder: Path, cwd: str | None = None) -> Program:
    return find_program((word,), {"PATH": f"{folder}/bin"}, cwd)


def test_a_program_is_found_by_its_path_or_on_the_path_of_the_worker(python: Path, tmp_path: Path) -> None:
    assert _find("python", tmp_path) == Program("python", str(python))
    assert _find(str(python), tmp_path).interpreter == str(python)
    assert _find("bin/python", tmp_path, str(tmp_path)).interpreter == str(python)
    assert _find("perl", tmp_path).is_missing
    assert _find("bin/perl", tmp_path, str(tmp_path)).is_missing


@pytest.mark.parametrize(
    "head", ["#!{python}", "#! {python} -u", "#!/usr/bin/env python", "#!/usr/bin/env -S python -u"]
)
def test_a_script_counts_by_its_first_line(python: Path, tmp_path: Path, head: str) -> None:
    path = _script(tmp_path, head.format(python=python))
    assert _find(str(path), tmp_path) == Program(str(path), str(python), is_script=True)


@pytest.mark.parametrize("head", ["", "#!", "#!/usr/bin/env", "#!/usr/bin/env -i python", "#!no-such", "#!'"])
def test_another_first_line_names_no_interpreter(python: Path, tmp_path: Path, head: str) -> None:
    del python
    assert _find(str(_script(tmp_path, head)), tmp_path).interpreter == ""


def test_a_script_of_a_script_names_no_interpreter(python: Path, tmp_path: Path) -> None:
    inner = _script(tmp_path, f"#!{python}", "inner")
    assert _find(str(_script(tmp_path, f"#!{inner}")), tmp_path).interpreter == ""
