"""The commands with a real operator, agents and workers: the life of a job from its user's view."""

import os
import signal
import subprocess

import pytest

from testing.kube.jobs import waiting_job
from testing.kube.stack import KubeStack
from testing.waiting import eventually
from tests.integration.cli.on_a_cluster import ELASTICJOB, Command

pytestmark = pytest.mark.kube


@pytest.fixture
def team(rig: KubeStack) -> Command:
    """Create a job `j` that runs its first round with one node of at most two."""
    rig.start_node()
    rig.start_operator()
    rig.create_job(waiting_job(rig, replicas=1, minReplicas=1, maxReplicas=2))
    rig.running(1, 1)
    return Command(rig.namespace.server.kubeconfig(namespace=rig.namespace.name), rig.folder)


def test_a_job_is_scaled_restarted_suspended_and_resumed_and_describe_shows_it(rig: KubeStack, team: Command) -> None:
    team("scale", "j", "--replicas", 2)
    rig.running(2, 2)
    team("restart", "j")
    rig.running(2, 3)
    team("suspend", "j")
    rig.phase("Suspended")
    assert team("describe", "j").out.endswith(f"`elasticjob resume j -n {rig.namespace.name}` continues the job.\n")
    team("resume", "j")
    resumed = rig.phase("Running")["rendezvousRound"]
    rig.finish.touch()
    rig.phase("Succeeded")
    rig.until("the last event", lambda: "Succeeded: " in team("describe", "j").out)
    described = team("describe", "j").out
    assert f"{rig.namespace.name}/j has succeeded after" in described
    assert "ScaledUp: from 1 to 2 nodes." in described
    timeline = team("timeline", "j", COLUMNS="100").out
    assert timeline.splitlines()[0].startswith(f"j Succeeded: round {resumed}, no restarts, no node losses")
    assert "<svg" in team("timeline", "j", "--svg").out


def test_watch_follows_a_worker_that_fails_to_the_end(rig: KubeStack, team: Command) -> None:
    environ = {"KUBECONFIG": str(team.kubeconfig), "PATH": "/usr/bin:/bin"}
    with subprocess.Popen([ELASTICJOB, "watch", "j"], env=environ, stdout=subprocess.PIPE, text=True) as watching:
        assert watching.stdout is not None
        assert "  Running  round 1  " in watching.stdout.readline()
        pid, _ = eventually(lambda: rig.pids(rig.keys()).get(0), within_s=30, what="the worker's pid") or (0, "")
        os.kill(pid, signal.SIGKILL)
        rig.running(1, 2)
        rig.finish.touch()
        output = watching.stdout.read()
        assert watching.wait(60) == 0
    assert "WorkerFailed: rank 0 on j-0-" in output
    assert "Succeeded: all workers of round 2 exited with code 0" in output
