"""A fault strikes a process of the run, and nobody else's."""

import os
import signal
import subprocess

from elasticjob_cli.local.fault_injector import strike_process


def test_a_process_below_us_is_struck() -> None:
    with subprocess.Popen(["sleep", "1000"]) as child:
        assert strike_process(child.pid, signal.SIGKILL)
    assert child.returncode == -signal.SIGKILL


def test_one_that_is_not_below_us_is_not() -> None:
    assert not strike_process(os.getppid(), signal.SIGCONT)


def test_nor_one_that_is_gone() -> None:
    with subprocess.Popen(["true"]) as child:
        pass
    assert not strike_process(child.pid, signal.SIGKILL)
