"""What a reader of the pages types: a command must stand on a page to be typed at all."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from testing.waiting import scaled
from tests.unit.docs.commands import commands

_LONGEST_S = 90.0
PROGRAMS = Path(sys.executable).parent
"""Where `elasticjob` and the others are."""
EMPTY: Mapping[str, str] = {}


def typed(
    command: str,
    folder: Path,
    values: Mapping[str, str] = EMPTY,
    *,
    environ: Mapping[str, str] = EMPTY,
    before: tuple[str, ...] = (),
) -> "subprocess.Popen[str]":
    """Start a command of a page; `values` are put where the page has a name of the reader's own.

    `before` are commands of the same terminal that this one builds upon: an export, a `cd`.
    """
    assert command in {told for _, told in commands()}
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


def said(process: "subprocess.Popen[str]", *, code: int = 0, within_s: float = _LONGEST_S) -> str:
    """What it printed; it ended with this code."""
    try:
        text, _ = process.communicate(timeout=scaled(within_s))
    finally:
        process.kill()
    assert process.returncode == code, text
    return text
