"""Nodes with kept steps: drained, frozen, powered off. A copy on another node is restored, or what was persisted."""

from typing import Any

import pytest

from e2e import nodes
from e2e.kept_job import KeptJob, Round
from e2e.manifests import apart, hurried, patient
from e2e.shared_volume import SharedVolume
from e2e.space import Space
from testing.waiting import eventually

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(600)]

SLOW = {"bandwidth": "8Ki"}
"""No copy of a step is complete during a test."""


def test_the_pod_of_a_drained_node_serves_the_parts_that_only_it_has(own_space: Space) -> None:
    job = KeptJob(own_space)
    first = _on_two_nodes(job, keep=SLOW)
    job.train_to(6, first)
    with nodes.drained(own_space.cluster, _node_of(own_space, first.pods[1])):
        second = job.next_round(first.number, 1)
        assert (second.pods, second.restored) == (first.pods[:1], 6)
        assert second.segments == ((first.number, 1, 6),)
        job.train_to(7, second)
    own_space.replaced(first.pods[1])
    third = job.next_round(second.number, 2)
    assert third.restored == 7
    job.finish(third)


def test_all_pods_of_a_drained_node_persist_the_newest_step_in_their_grace(
    own_space: Space, volume: SharedVolume
) -> None:
    job = KeptJob(own_space)
    one, other = own_space.cluster.workers()
    spec = {"replicas": 2, "minReplicas": 2, "podDisruptionBudget": "None"}
    manifest = volume.mounted(patient(job.manifest(keep=SLOW, **spec)), persistEverySeconds=3600)
    with nodes.cordoned(own_space.cluster, other):
        first = job.start(manifest)
    assert {_node_of(own_space, pod) for pod in first.pods} == {one}
    job.train_to(6, first)
    assert volume.whole_steps() == []
    with nodes.drained(own_space.cluster, one):
        second = job.next_round(first.number, 2)
        assert not {*first.pods} & {*second.pods}
        assert second.restored == 6
        job.train_to(7, second)
    job.finish(second)


@pytest.mark.parametrize("fault", [nodes.frozen, nodes.killed], ids=["frozen", "killed"])
def test_a_copy_on_another_node_is_restored_when_a_node_is(own_space: Space, fault: Any) -> None:
    job = KeptJob(own_space)
    first = _on_two_nodes(job)
    stays, lost = first.pods
    job.train_to(6, first)
    job.await_copies(6, first)
    with fault(own_space.cluster, _node_of(own_space, lost)):
        second = job.next_round(first.number, 1)
        assert (second.pods, second.restored) == ((stays,), 6)
        job.train_to(8, second)
    third = job.next_round(second.number, 2)
    assert stays in third.pods
    assert third.restored == 8
    assert third.segments == ((first.number, 1, 6), (second.number, 7, 8))
    job.train_to(9, third)
    job.await_copies(9, third)
    for pod in third.pods:
        assert {number for number, _ in job.held(pod)} <= {8, 9}
    job.finish(third)


def _on_two_nodes(job: KeptJob, **manifest: Any) -> Round:
    """Start two pods on two nodes, of which the job needs one. Each has a part of a step."""
    spec = {"replicas": 2, "minReplicas": 1, "lostPodTimeoutSeconds": 600, **manifest}
    made = apart(hurried(job.manifest(**spec)))
    found = job.start(made)
    assert len({_node_of(job.space, pod) for pod in found.pods}) == 2
    return found


def _node_of(space: Space, pod: str) -> str:
    """Return the node of a pod."""
    return eventually(
        lambda: next((each["spec"]["nodeName"] for each in space.pods() if each["metadata"]["name"] == pod), ""),
        what=f"the node of {pod}",
        pause_s=0.5,
    )
