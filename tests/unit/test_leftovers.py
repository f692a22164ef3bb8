"""Temporary files of a test, or of a process that it starts, are deleted with the session."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

WHEN_COLLECTED = tempfile.gettempdir()


def test_temporary_files_of_tests_lie_in_the_folder_of_the_session(temporary_folder: Path) -> None:
    assert Path(tempfile.mkdtemp()).parent == temporary_folder


def test_temporary_files_of_what_tests_start_lie_there_too(temporary_folder: Path) -> None:
    program = "import tempfile; print(tempfile.gettempdir())"
    output = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, env=os.environ)
    assert output.stdout.strip() == str(temporary_folder)


def test_so_do_those_that_are_made_when_tests_are_collected(temporary_folder: Path) -> None:
    assert str(temporary_folder) == WHEN_COLLECTED
