"""What every test shares: temporary files in a folder of the session, which goes with it.

Agents and launchers keep their logs in the temporary folder when they are not told where, as torchrun does; so do
tests of that. `TMPDIR` is short, since sockets lie below it.
"""

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.waiting import eventually


@pytest.fixture(scope="session", autouse=True)
def temporary_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The session's own; it is the last thing to go, and nobody may still write to it."""
    tmp_path_factory.getbasetemp()  # pytest's own folders stay where they would be: those of failed tests are kept
    before = os.environ.get("TMPDIR")
    folder = Path(tempfile.mkdtemp(prefix="ej-"))
    os.environ["TMPDIR"] = tempfile.tempdir = str(folder)
    yield folder
    tempfile.tempdir = None
    if before is None:
        del os.environ["TMPDIR"]
    else:
        os.environ["TMPDIR"] = before
    eventually(lambda: _removed(folder), within_s=30, what=f"the session's temporary folder {folder} gone")


def _removed(folder: Path) -> bool:
    shutil.rmtree(folder, ignore_errors=True)
    return not folder.exists()
