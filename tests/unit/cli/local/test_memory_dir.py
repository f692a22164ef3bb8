"""The folder of a run in memory: private, removed with the run, or by the next one if the run was killed."""

import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from elasticjob_cli.errors import RunFolderError
from elasticjob_cli.local.memory_dir import memory_dir
from testing.processes import other_user

_HOLDS = """
import pathlib, sys, time
from elasticjob_cli.local.memory_dir import memory_dir
with memory_dir(pathlib.Path(sys.argv[1])) as made:
    (made.path / "part").write_text("x")
    print(made.path, flush=True)
    time.sleep(600)
"""


def test_a_folder_is_private_and_removed_with_all_that_is_in_it(tmp_path: Path) -> None:
    with memory_dir(tmp_path) as made:
        (made.path / "pod" / "in").mkdir(parents=True)
        (made.path / "pod" / "in" / "part").write_text("x")
        assert stat.S_IMODE(made.path.stat().st_mode) == 0o700
        assert made.path.parent == tmp_path
    assert list(tmp_path.iterdir()) == []


def test_the_folder_of_a_run_that_goes_on_stays_and_that_of_a_killed_one_is_removed(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", _HOLDS, str(tmp_path)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        held = Path(process.stdout.readline().strip())
        with memory_dir(tmp_path):
            assert (held / "part").exists()
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert held.exists()
    with memory_dir(tmp_path) as made:
        assert list(tmp_path.iterdir()) == [made.path]


def test_what_other_programs_have_there_stays(tmp_path: Path) -> None:
    others = [tmp_path / "elasticjob-running", tmp_path / "sem.elasticjob-run-1", tmp_path / "elasticjob-run-file"]
    for path in others[:2]:
        path.mkdir()
    others[2].write_text("x")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (tmp_path / "elasticjob-run-link").symlink_to(elsewhere)
    with memory_dir(tmp_path):
        pass
    assert all(path.exists() for path in [*others, elsewhere])


@other_user.needs_root
def test_a_folder_of_another_user_stays_whatever_is_in_it(tmp_path: Path) -> None:
    theirs = tmp_path / "elasticjob-run-theirs"
    (theirs / "part").mkdir(parents=True)
    theirs.chmod(0o777)
    os.chown(theirs, 12345, 12345)
    with memory_dir(tmp_path):
        pass
    assert (theirs / "part").exists()


def test_a_machine_without_a_place_in_memory_is_named_with_the_cure(tmp_path: Path) -> None:
    why = r"spec\.keep needs memory there.*No such file.*remove spec\.keep"
    with pytest.raises(RunFolderError, match=why), memory_dir(tmp_path / "missing"):
        pass
