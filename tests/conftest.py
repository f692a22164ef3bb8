"""Fixtures of all tests: temporary files in a folder of the session, which is deleted at its end.

Agents and launchers without a log folder write their logs to the temporary folder, as torchrun does. Tests of that do
the same, some as soon as they are collected. The folder's name is short, since sockets lie below it.
"""

import functools
import os
import shutil
import tempfile
from collections.abc import Generator
from pathlib import Path

import pytest
import pytest_timeout
from hypothesis import HealthCheck, settings

from testing.waiting import eventually, slowness

# No test may fail because the machine is slow.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")

_LEAST_PATIENCE = 3.0
_GOAWAY = ("too_many_pings", "ENHANCE_YOUR_CALM")
_FOLDER = pytest.StashKey[Path]()


def pytest_configure(config: pytest.Config) -> None:
    """Make it; of several processes each has its own, but for the one that only hands out tests."""
    if getattr(config.option, "dist", "no") != "no" and not hasattr(config, "workerinput"):
        return
    usual = tempfile.gettempdir()
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", usual)  # the folders of failed tests are kept where they always are
    folder = config.stash[_FOLDER] = Path(tempfile.mkdtemp(prefix="ej-"))
    os.environ["TMPDIR"] = tempfile.tempdir = str(folder)
    os.environ["ELASTICJOB_SOCKET_DIR"] = str(folder / "etcd")  # the user's own has those of other sessions
    config.add_cleanup(functools.partial(_remove, folder, usual))


def pytest_timeout_set_timer(item: pytest.Item, settings: pytest_timeout.Settings) -> bool:
    """The guard against a test that hangs waits longer on a machine with more work than cores."""
    # The load may rise while the test runs.
    later = settings._replace(timeout=settings.timeout * max(_LEAST_PATIENCE, slowness()))
    done: bool = pytest_timeout.pytest_timeout_set_timer(item, later)
    return done


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Fail a test during which etcd has ended a connection for its pings: something holds one that it does not use."""
    report = yield
    if report.passed and any(sign in report.capstderr for sign in _GOAWAY):
        report.outcome = "failed"
        report.longrepr = (
            f"etcd has ended an idle connection of this process, perhaps an earlier test's:\n{report.capstderr}"
        )
    return report


def _remove(folder: Path, usual: str) -> None:
    """Delete the folder; wait until no process writes to it any more."""
    os.environ["TMPDIR"] = tempfile.tempdir = usual
    eventually(lambda: _removed(folder), within_s=30, what=f"the session's temporary folder {folder} gone")


def _removed(folder: Path) -> bool:
    shutil.rmtree(folder, ignore_errors=True)
    return not folder.exists()


@pytest.fixture(scope="session")
def temporary_folder(pytestconfig: pytest.Config) -> Path:
    """The session's own."""
    return pytestconfig.stash[_FOLDER]
