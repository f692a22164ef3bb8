"""A fault strikes a process of the run, and nobody else's."""

import os
import signal
import subprocess

from elasticjob_cli.local.fault_injector import signal_descendant


def test_a_process_below_us_is_struck() -> None:
    with subprocess.Popen(["sleep", "1000"]) as child:
        assert signal_descendant(child.pid, signal.SIGKILL)
    assert child.returncode == -signal.SIGKILL


def test_one_that_is_not_below_us_is_not() -> None:
    assert not signal_descendant(os.getppid(), signal.SIGCONT)


def test_nor_one_that_is_gone() -> None:
    with subprocess.Popen(["true"]) as child:
        pass
    assert not signal_descendant(child.pid, signal.SIGKILL)
