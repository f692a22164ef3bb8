"""etcd with three members, each on its own node: the node of one dies, their leader dies, and no job notices.

The release is reinstalled for these tests, without disks, and restored at their end.
"""

from collections.abc import Iterator

import pytest

from e2e import members, nodes
from e2e.cluster import RELEASE, SYSTEM, Cluster
from e2e.manifests import ENDLESS, digits, on, patient
from e2e.members import MEMBERS
from e2e.programs import run
from e2e.space import KINDS, Space
from testing.waiting import eventually

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(600)]

_VALUES = ("etcd.members=3", "etcd.nodeSelector=null")


@pytest.fixture(scope="module")
def three(cluster: Cluster) -> Iterator[Cluster]:
    """Install the release with three members."""
    cluster.load_etcd_everywhere()
    cluster.helm("uninstall", RELEASE, "--wait")
    try:
        cluster.install(*_VALUES)
        yield cluster
    finally:
        cluster.helm("uninstall", RELEASE, "--wait")
        cluster.install()


def test_the_node_of_a_member_dies_and_the_job_on_another_does_not_notice(three: Cluster, own_space: Space) -> None:
    stays, dies = three.workers()
    first = _start(own_space, stays)
    with nodes.killed(three, dies):
        own_space.reached_more()
        assert own_space.counts() == (1, 0, 0)
        own_space.kill_worker(1)
        after = own_space.wait(restarts=1, rendezvousRound=2, readyReplicas=2)
        assert own_space.counts(after) == (2, 1, 0)
    _same_pods(first, after)
    eventually(lambda: members.leader(three), within_s=180, what="three members again, one of which leads", pause_s=1)
    _end(own_space)


def test_the_leader_dies_another_leads_and_no_worker_notices(three: Cluster, own_space: Space) -> None:
    first = _start(own_space, three.workers()[0])
    leader = members.leader(three)
    place = three.kubectl("get", "pod", "-n", SYSTEM, leader, "-o", "jsonpath={.spec.nodeName}")
    run("docker", "exec", place, "pkill", "-STOP", "-f", "--", f"--name={leader}")
    try:
        others = [member for member in MEMBERS if member != leader]
        eventually(lambda: members.leader(three, *others) in others, within_s=60, what="another leader", pause_s=0.5)
        own_space.reached_more()
        own_space.kill_worker(1)
        after = own_space.wait(restarts=1, rendezvousRound=2, readyReplicas=2)
    finally:
        run("docker", "exec", place, "pkill", "-CONT", "-f", "--", f"--name={leader}")
    assert own_space.counts(after) == (2, 1, 0)
    _same_pods(first, after)
    _end(own_space)


def test_a_member_whose_pod_and_data_are_lost_is_replaced_and_no_worker_notices(
    three: Cluster, own_space: Space
) -> None:
    first = _start(own_space, three.workers()[0])
    lost = next(member for member in MEMBERS if member == members.leader(three))
    three.kubectl("delete", "pod", "-n", SYSTEM, lost, "--wait=true")
    three.kubectl("wait", "pod", "-n", SYSTEM, lost, "--for=condition=Ready", "--timeout=150s", limit_s=160)
    own_space.reached_more()
    own_space.kill_worker(1)
    after = own_space.wait(restarts=1, rendezvousRound=2, readyReplicas=2)
    assert own_space.counts(after) == (2, 1, 0)
    _same_pods(first, after)
    _end(own_space)


def _start(space: Space, node: str) -> dict[str, object]:
    """Start two pods on the node that gets no fault."""
    space.apply(patient(on(digits(epochs=ENDLESS, replicas=2), node)))
    first = space.wait(phase="Running", readyReplicas=2)
    space.reached(30)
    return first


def _same_pods(first: dict[str, object], after: dict[str, object]) -> None:
    def names(status: dict[str, object]) -> list[str]:
        found = status["nodes"]
        assert isinstance(found, list)
        return [node["podName"] for node in found]

    assert names(after) == names(first)


def _end(space: Space) -> None:
    space.delete_job()
    assert space.objects(KINDS) == []
