"""An import of the modules has no effect."""

import subprocess
import sys

import pytest

from tests.integration.supervisor.launching import ROOT

_LOOK = """
import os, signal, sys, threading
def state():
    handlers = [signal.getsignal(each) for each in signal.valid_signals()]
    children = open(f"/proc/self/task/{os.getpid()}/children").read()
    return dict(os.environ), handlers, children, len(os.listdir("/proc/self/task")), os.listdir("/proc/self/fd")
before = state()
import MODULE
assert state() == before, (state(), before)
assert not {"torch", "numpy", "grpc", "etcd3"} & set(sys.modules)
"""


@pytest.mark.parametrize("module", ["elasticjob_agent.spawn", "elasticjob_agent.launch"])
def test_an_import_starts_nothing_changes_nothing_and_needs_no_torch(module: str) -> None:
    subprocess.run([sys.executable, "-c", _LOOK.replace("MODULE", module)], cwd=ROOT, check=True)
