"""Pods with IPv6 addresses: agents link, workers connect to rank 0's address, and recover from a failure."""

import os
import signal

import pytest

from elasticjob_api.rendezvous_state import decode_state
from testing.kube.jobs import QUICK
from testing.kube.stack import KubeStack

pytestmark = pytest.mark.kube

WORKER = """
import os, socket, sys, time
with open(sys.argv[1] + "." + os.environ["RANK"], "w") as out:
    out.write(os.environ["MASTER_ADDR"])
if os.environ["RANK"] == "0":
    listener = socket.create_server((os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])), family=socket.AF_INET6)
while not os.path.exists(sys.argv[2]):
    time.sleep(0.02)
"""


def test_a_job_on_ipv6_runs_and_recovers(rig: KubeStack) -> None:
    rig.start_node(ip="::1")
    rig.start_operator()
    told = [rig.folder / f"master.{rank}" for rank in (0, 1)]
    command = ["python", "-S", "-c", WORKER, str(rig.folder / "master"), str(rig.finish)]
    template = {"spec": {"containers": [{"name": "trainer", "image": "i", "command": command}]}}
    rig.create_job(
        {
            "apiVersion": "elasticjob.io/v1alpha1",
            "kind": "ElasticJob",
            "metadata": {"name": "j"},
            "spec": {**QUICK, "replicas": 2, "template": template},
        }
    )
    rig.running(nodes=2, round_=1)
    assert {pod["status"]["podIP"] for pod in rig.pods()} == {"::1"}
    keys = rig.keys()
    [state] = rig.etcd_range(keys.rendezvous_state).kvs
    assert decode_state(state.value).master.startswith("[::1]:")
    rig.until("both workers", lambda: all(path.exists() and path.read_text() for path in told))
    assert [path.read_text() for path in told] == ["::1", "::1"]

    rig.until("the pid of rank 0", lambda: 0 in rig.pids(keys))
    os.kill(rig.pids(keys)[0][0], signal.SIGKILL)
    assert rig.running(nodes=2, round_=2)["restarts"] == 1
    rig.finish.touch()
    rig.phase("Succeeded")
