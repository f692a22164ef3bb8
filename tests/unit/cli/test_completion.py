"""Completion scripts: each shell parses its own, and bash completes commands, options and values."""

import shutil
import subprocess

import pytest

from elasticjob_cli.completion import SHELLS, options
from elasticjob_cli.registry import ENTRIES


def completed(line: str) -> list[str]:
    """Return the completions of a real bash at the end of this line."""
    words = line.split(" ")
    script = (
        f"{SHELLS['bash']()}\nCOMP_WORDS=({' '.join(repr(word) for word in words)})\n"
        f"COMP_CWORD={len(words) - 1}\n_elasticjob\nprintf '%s\\n' \"${{COMPREPLY[@]}}\""
    )
    done = subprocess.run(["bash", "--norc", "-c", script], capture_output=True, text=True, check=True)
    return done.stdout.split()


def test_commands_are_completed() -> None:
    assert completed("elasticjob des") == ["describe"]


def test_options_and_their_values_are_completed() -> None:
    assert completed("elasticjob logs --fa") == ["--failed"]
    assert completed("elasticjob get -o ") == ["json", "yaml", "wide", "name"]
    assert completed("elasticjob completion z") == ["zsh"]


@pytest.mark.parametrize("shell", sorted(SHELLS))
def test_every_command_and_option_is_in_every_script(shell: str) -> None:
    script = SHELLS[shell]()
    for name in ENTRIES:
        assert name in script
        for option in options(name):
            assert option.flags[-1].lstrip("-") in script


@pytest.mark.parametrize("shell", sorted(SHELLS))
def test_a_shell_that_is_here_parses_its_script(shell: str) -> None:
    if shutil.which(shell) is None:
        assert shell != "bash"  # bash is on every machine; the others are tested where they are installed
        return
    subprocess.run([shell, "-n"], input=SHELLS[shell](), text=True, check=True)
