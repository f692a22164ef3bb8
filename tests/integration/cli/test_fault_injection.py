"""A fault is injected only into a process of the run."""

import os
import signal
import subprocess

from elasticjob_cli.local.fault_injector import signal_descendant


def test_a_descendant_is_signalled() -> None:
    with subprocess.Popen(["sleep", "1000"]) as child:
        assert signal_descendant(child.pid, signal.SIGKILL)
    assert child.returncode == -signal.SIGKILL


def test_a_process_that_is_not_a_descendant_is_not_signalled() -> None:
    assert not signal_descendant(os.getppid(), signal.SIGCONT)


def test_a_process_that_has_ended_is_not_signalled() -> None:
    with subprocess.Popen(["true"]) as child:
        pass
    assert not signal_descendant(child.pid, signal.SIGKILL)
