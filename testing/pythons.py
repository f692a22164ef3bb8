"""Interpreters of other versions, for code that the user's Python runs."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SUPPORTED = ("3.8", "3.9", "3.10", "3.11", "3.12", "3.13")
"""The versions of Python in which the code of user_python/ runs."""


def find_python(version: str) -> str | None:
    """Return an interpreter of this version that works: this one, one of PATH, or one that pyenv has installed."""
    if version == f"{sys.version_info.major}.{sys.version_info.minor}":
        return sys.executable
    installed = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))
    for python in filter(None, [shutil.which(f"python{version}"), *map(str, installed)]):
        asked = subprocess.run(
            [python, "-c", "import sys; print(sys.version)"], capture_output=True, text=True, check=False
        )
        if asked.stdout.startswith(version + "."):
            return python
    return None


def need_python(version: str) -> str:
    """Return an interpreter of this version, or skip the test."""
    python = find_python(version)
    if python is None:
        pytest.skip(f"there is no Python {version}")
    return python
