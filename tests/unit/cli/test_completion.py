"""Completion scripts: each shell parses its own, and bash completes commands, options, values, jobs and files."""

import shutil
import subprocess
from pathlib import Path

import pytest

from elasticjob_cli.command_registry import ENTRIES
from elasticjob_cli.completion import SHELLS, completion_script


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """Return a folder for PATH with an `elasticjob` that lists two jobs."""
    fake = tmp_path / "elasticjob"
    fake.write_text("#!/bin/sh\necho elasticjob.elasticjob.io/digits; echo elasticjob.elasticjob.io/llm\n")
    fake.chmod(0o755)
    return tmp_path


def completed(line: str, program: Path) -> list[str]:
    """Return the completions of a real bash at the end of this line."""
    words = line.split(" ")
    script = (
        f"{completion_script('bash')}\nCOMP_WORDS=({' '.join(repr(word) for word in words)})\n"
        f"COMP_CWORD={len(words) - 1}\n_shtab_elasticjob\nprintf '%s\\n' \"${{COMPREPLY[@]}}\""
    )
    environ = {"PATH": f"{program}:/usr/bin:/bin"}
    done = subprocess.run(
        ["bash", "--norc", "-c", script], capture_output=True, text=True, check=True, env=environ, cwd=program
    )
    return done.stdout.split()


def test_commands_are_completed(program: Path) -> None:
    assert completed("elasticjob des", program) == ["describe"]


def test_options_and_their_values_are_completed(program: Path) -> None:
    assert completed("elasticjob logs --fa", program) == ["--failed"]
    assert completed("elasticjob get -o ", program) == ["json", "yaml", "wide", "name"]
    assert completed("elasticjob completion z", program) == ["zsh"]


def test_names_of_jobs_are_completed(program: Path) -> None:
    assert completed("elasticjob logs ", program) == ["digits", "llm"]
    assert completed("elasticjob scale -n team l", program) == ["llm"]


def test_files_and_folders_of_runs_are_completed(program: Path) -> None:
    (program / "runs").mkdir()
    (program / "job.yaml").touch()
    assert completed("elasticjob logs r", program) == ["runs"]
    assert completed("elasticjob run j", program) == ["job.yaml"]


@pytest.mark.parametrize("shell", SHELLS)
def test_every_command_and_option_is_in_every_script(shell: str) -> None:
    script = completion_script(shell)
    for name, entry in ENTRIES.items():
        assert name in script
        for action in entry.page().parser(name)._actions:
            assert all(flag.lstrip("-") in script for flag in action.option_strings)


@pytest.mark.parametrize("shell", SHELLS)
def test_a_shell_that_is_here_parses_its_script(shell: str) -> None:
    if shutil.which(shell) is None:
        assert shell != "bash"  # bash is on every machine; the others are tested where they are installed
        return
    subprocess.run([shell, "-n"], input=completion_script(shell), text=True, check=True)
