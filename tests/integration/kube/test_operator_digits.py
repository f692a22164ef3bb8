"""The example on a real API server: kubectl apply, a killed worker, one new round, success, kubectl delete."""

import os
import signal
from typing import Any

import pytest

from testing.kube.jobs import digits_job
from testing.kube.stack import KubeStack
from testing.processes.process import ROOT

pytestmark = pytest.mark.kube

DIGITS = ROOT / "examples" / "digits"


def columns(rig: KubeStack) -> dict[str, str]:
    """Return the columns of `kubectl get ejob` for the job, without its age."""
    row = rig.namespace.row("digits")
    assert row.pop("AGE")
    return row


def kill_rank(rig: KubeStack, rank: int) -> str:
    """SIGKILL a worker by the pid that its agent reported; return its pod."""
    keys = rig.keys("digits")
    rig.until(f"the pid of rank {rank}", lambda: rank in rig.pids(keys))
    pid, pod = rig.pids(keys)[rank]
    os.kill(pid, signal.SIGKILL)
    return pod


def running(restarts: str) -> dict[str, str]:
    shown = {"NAME": "digits", "PHASE": "Running", "READY": "2", "DESIRED": "2"}
    return shown | {"RESTARTS": restarts, "REASON": ""}


def assert_failure(failure: dict[str, Any], *, rank: int, pod: str) -> None:
    said = {name: failure[name] for name in ("rank", "podName", "signal", "exitCode", "round", "reason")}
    wanted = {"rank": rank, "podName": pod, "signal": "SIGKILL", "exitCode": 137, "round": 1, "reason": "Signaled"}
    assert said == wanted


def test_digits_survives_a_killed_worker_and_leaves_nothing_behind(rig: KubeStack) -> None:
    rig.start_node(cwd=DIGITS)
    rig.start_operator()
    rig.namespace.apply(digits_job(DIGITS, replicas=2, epochs=12))
    rig.running(nodes=2, round_=1, name="digits")
    assert columns(rig) == running(restarts="0")
    pods = rig.pod_names()

    struck = kill_rank(rig, 1)
    status = rig.running(nodes=2, round_=2, name="digits")
    assert columns(rig) == running(restarts="1")
    assert_failure(status["lastFailure"], rank=1, pod=struck)

    status = rig.phase("Succeeded", "digits")
    assert columns(rig) == {**running(restarts="1"), "PHASE": "Succeeded", "READY": "0"}
    counts = (status["rendezvousRound"], status["restarts"], status["nodeLosses"], status["podReplacements"])
    assert counts == (2, 1, 0, 0)
    assert rig.pod_names() == pods

    rig.namespace.kubectl("delete", "ejob", "digits")
    rig.until("no pod", lambda: not rig.pods())
    rig.until("no key in etcd", lambda: not rig.etcd_keys())
