"""Every metric of the operator after one history: a real operator, API server and etcd, and real workers."""

import os
import re
import signal
import urllib.request

import psutil
import pytest

from testing.kube.jobs import waiting_job
from testing.kube.stack import KubeStack
from testing.network.ports import unused_port

pytestmark = pytest.mark.kube

_LINE = re.compile(r"elasticjob_(?P<series>[a-z_]+(?:\{[^}]*\})?) (?P<value>\S+)")


def figures(rig: KubeStack, url: str) -> dict[str, float]:
    """Return values by series, such as `restarts_total{namespace="here"}`."""
    with urllib.request.urlopen(url, timeout=10) as answer:
        text = answer.read().decode().replace(f'namespace="{rig.namespace.name}"', 'namespace="here"')
    found = (_LINE.fullmatch(line) for line in text.splitlines())
    return {match["series"]: float(match["value"]) for match in found if match}


def agent_of(pid: int) -> int:
    """Return the agent that started a worker."""
    return next(p.pid for p in psutil.Process(pid).parents() if any("elasticjob-agent" in w for w in p.cmdline()))


def run_history(rig: KubeStack) -> None:
    """Run a job through a killed worker, a failed pod, a resize and its end; and a job to its deadline."""
    rig.create_job(waiting_job(rig, "late", activeDeadlineSeconds=1))
    rig.create_job(waiting_job(rig, replicas=2, minReplicas=2, maxReplicas=3))
    rig.running(nodes=2, round_=1)
    keys = rig.keys()
    os.kill(rig.pids(keys)[0][0], signal.SIGKILL)
    rig.running(nodes=2, round_=2)
    rig.until("the pid of rank 1", lambda: 1 in rig.pids(keys))
    os.kill(agent_of(rig.pids(keys)[1][0]), signal.SIGKILL)
    rig.running(nodes=2, round_=3)
    rig.patch_job("j", {"replicas": 3})
    rig.running(nodes=3, round_=4)
    rig.finish.touch()
    rig.phase("Succeeded")
    rig.phase("Failed", "late")


EXACTLY = {
    'created_total{namespace="here"}': 2.0,
    'succeeded_total{namespace="here"}': 1.0,
    'failed_total{namespace="here",reason="DeadlineExceeded"}': 1.0,
    'restarts_total{namespace="here"}': 1.0,
    'node_losses_total{namespace="here"}': 1.0,
    'pod_replacements_total{namespace="here"}': 1.0,
    'resizes_total{namespace="here"}': 1.0,
    'rounds_total{cause="WorkerFailed",namespace="here"}': 1.0,
    'rounds_total{cause="NodeLost",namespace="here"}': 1.0,
    'rounds_total{cause="NodeJoined",namespace="here"}': 1.0,
    'recovery_seconds_count{cause="WorkerFailed"}': 1.0,
    'recovery_seconds_count{cause="NodeLost"}': 1.0,
    "resize_seconds_count": 1.0,
    'phase{namespace="here",phase="Succeeded"}': 1.0,
    'phase{namespace="here",phase="Failed"}': 1.0,
}
AT_LEAST_SOME = {
    "time_to_running_seconds_count",
    'agent_reports_total{code="ok"}',
    "reconcile_seconds_count",
    'job_seconds_total{namespace="here",state="active"}',
    'watch_age_seconds{resource="elasticjobs"}',
    'watch_age_seconds{resource="pods"}',
}


def test_every_metric_shows_the_history(rig: KubeStack) -> None:
    url = f"http://127.0.0.1:{unused_port()}"
    rig.start_node()
    rig.start_operator("--liveness", f"{url}/healthz")
    run_history(rig)

    def are_shown() -> dict[str, float]:
        found = figures(rig, f"{url}/metrics")
        return found if {name: found.get(name) for name in EXACTLY} == EXACTLY else {}

    found = rig.until("the figures", are_shown)
    assert not {name for name in AT_LEAST_SOME if found.get(name, 0.0) <= 0.0}
