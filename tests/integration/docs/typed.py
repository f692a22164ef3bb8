"""Type the commands of a reader: only a command that a page contains can be typed."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from testing.waiting import scaled
from tests.unit.docs.commands import commands

_LONGEST_S = 90.0
PROGRAMS = Path(sys.executable).parent
"""The folder of `elasticjob` and the other programs."""
EMPTY: Mapping[str, str] = {}


def typed(
    command: str,
    folder: Path,
    values: Mapping[str, str] = EMPTY,
    *,
    environ: Mapping[str, str] = EMPTY,
    before: tuple[str, ...] = (),
) -> "subprocess.Popen[str]":
    """Start a command of a page; `values` replace the names on the page that a reader chooses.

    `before` are earlier commands of the same terminal that this one needs: an export, a `cd`.
    """
    assert command in {known for _, known in commands()}
    for name, value in values.items():
        assert name in command
        command = command.replace(name, value)
    path = f"{PROGRAMS}:{os.environ['PATH']}"
    return subprocess.Popen(
        ("bash", "-o", "pipefail", "-c", "\n".join((*before, command))),
        cwd=folder,
        env={**os.environ, "PATH": path, **environ},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def output_of(process: "subprocess.Popen[str]", *, code: int = 0, within_s: float = _LONGEST_S) -> str:
    """Return the output of a process, which must end with this exit code."""
    try:
        text, _ = process.communicate(timeout=scaled(within_s))
    finally:
        process.kill()
    assert process.returncode == code, text
    return text
