"""The SDK with a real operator and a real node: the life of a job in the methods of its users."""

import pytest

from elasticjob import Cluster, ElasticJob, Phase
from elasticjob.errors import JobFailed
from testing.kube.jobs import waiting_job
from testing.kube.stack import KubeStack

pytestmark = pytest.mark.kube
LIMIT_S = 60.0


@pytest.fixture
def cluster(rig: KubeStack) -> Cluster:
    """Start an operator and a node; return the SDK's cluster."""
    rig.start_operator()
    rig.start_node()
    server = rig.namespace.server
    return Cluster.connect(kubeconfig=server.kubeconfig(namespace=rig.namespace.name))


def test_a_job_is_created_scaled_suspended_resumed_restarted_and_awaited(rig: KubeStack, cluster: Cluster) -> None:
    manifest = waiting_job(rig, replicas=1, minReplicas=1, maxReplicas=2)
    job = ElasticJob.from_dict(manifest).create(cluster=cluster)
    job.wait(phase="Running", timeout_s=LIMIT_S)
    job.scale(2)
    rig.running(2, 2)
    job.suspend().wait(phase="Suspended", timeout_s=LIMIT_S)
    job.resume().wait(phase="Running", timeout_s=LIMIT_S)
    resumed = job.status.rendezvous_round
    job.restart()
    rig.running(2, resumed + 1)
    rig.finish.touch()
    assert job.wait(timeout_s=LIMIT_S).phase is Phase.SUCCEEDED


def test_a_failed_job_names_the_rank_and_its_message(rig: KubeStack, cluster: Cluster) -> None:
    manifest = waiting_job(rig, maxRestarts=0)
    manifest["spec"]["template"]["spec"]["containers"][0]["command"] = ["sh", "-c", "echo no data >&2; exit 3"]
    job = ElasticJob.from_dict(manifest).create(cluster=cluster)
    with pytest.raises(JobFailed, match=r"job j failed: .*rank 0 in pod j-0-\w+ ended with exit code 3"):
        job.wait(timeout_s=LIMIT_S)
