"""Modules that the fork server has imported before the first process starts."""

import multiprocessing
import sys
from pathlib import Path

import pytest

from elasticjob_agent.spawn import start_processes
from elasticjob_agent.spawn.start import configured_preload
from elasticjob_agent.supervisor import StartError
from testing.waiting import scaled
from tests.integration.spawn import functions
from tests.integration.supervisor.launching import Script


@pytest.fixture
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of modules that each process could import too."""
    folder = tmp_path / "modules"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(folder))
    (folder / "notes_its_pid.py").write_text("import os\nPID = os.getpid()\n")
    (folder / "starts_a_thread.py").write_text(
        "import threading\nthreading.Thread(target=threading.Event().wait, name='mine', daemon=True).start()\n"
    )
    return folder


def _run(script: Script, call: str) -> str:
    """Run a call in a program of its own, because a fork server lives as long as its program; return stderr."""
    program = script(
        "from pathlib import Path\nfrom elasticjob_agent.spawn import start_processes\n"
        f"from tests.integration.spawn import functions\n{call}"
    )
    return program.communicate(timeout=scaled(60))[1]


def test_a_preloaded_module_is_imported_once_for_all_processes(tmp_path: Path, modules: Path, script: Script) -> None:
    call = "start_processes(functions.note_importer, args=(Path({!r}),), nprocs=2, {})"
    options = "start_method='forkserver', preload=['notes_its_pid']"
    path = f"import sys; sys.path.insert(0, {str(modules)!r})\n"
    assert _run(script, path + call.format(str(tmp_path), options)) == ""
    importers = {(tmp_path / f"importer of {index}").read_text() for index in range(2)}
    assert len(importers) == 1


def test_numpy_can_be_preloaded_and_computes_after_the_fork(script: Script) -> None:
    call = "start_processes(functions.compute, nprocs=2, start_method='forkserver', preload=['numpy'])"
    assert _run(script, call) == ""


def test_a_fork_server_that_died_is_replaced(tmp_path: Path, script: Script) -> None:
    call = "start_processes(functions.note_parent, args=(folder,), start_method='forkserver')"
    server = "int((folder / 'parent of 0').read_text())"
    assert (
        _run(
            script,
            f"import os\nfolder = Path({str(tmp_path)!r})\n{call}\nfirst = {server}\nos.kill(first, 9)\n"
            f"functions.wait_for(lambda: not Path('/proc', str(first)).exists())\n{call}\nassert {server} != first",
        )
        == ""
    )


def test_a_module_that_starts_a_thread_is_refused_by_name(modules: Path) -> None:
    del modules
    with pytest.raises(StartError, match=r"starts_a_thread there are 2 threads \(mine\)"):
        start_processes(functions.nothing, start_method="forkserver", preload=["starts_a_thread"])


def test_without_preload_the_modules_of_multiprocessing_are_imported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server = sys.modules["multiprocessing.forkserver"]._forkserver
    monkeypatch.setattr(server, "_preload_modules", server._preload_modules)
    assert configured_preload() == ()
    multiprocessing.get_context("forkserver").set_forkserver_preload(["__main__", "numpy"])
    assert configured_preload() == ("numpy",)
