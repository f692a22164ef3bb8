"""Steps that are kept in the memory of pods: what is restored after a loss, in pods on real nodes.

The workers compare nothing with a log: they report the number, the parameters and the rounds of what they have
restored. The parameters must be those of an undisturbed training, and so must the end.
"""

from collections.abc import Callable

import pytest

from e2e.kept_job import KeptJob, Round
from e2e.manifests import hurried, patient, spread
from e2e.space import Space
from e2e.training.exact import ALONE
from testing.waiting import eventually

pytestmark = pytest.mark.timeout(400)

Measured = Callable[[str, float], None]
SLOW = {"bandwidth": "8Ki"}
"""No copy of a step is complete during a test."""


def test_a_killed_worker_costs_no_published_step(own_space: Space, measured: Measured) -> None:
    job = KeptJob(own_space)
    first = job.start(patient(job.manifest(keep=SLOW)))
    job.train_to(5, first)
    killed_at_s = own_space.kill_worker(1)
    second = job.next_round(first.number, 3)
    measured(
        "worker SIGKILLed -> every worker started, with kept steps", own_space.running(second.number) - killed_at_s
    )
    assert (second.restored, second.pods) == (5, first.pods)
    assert second.segments == ((first.number, 1, 5),)
    job.train_to(8, second)
    own_space.kill_worker(0)
    third = job.next_round(second.number, 3)
    assert third.restored == 8
    assert third.segments == ((first.number, 1, 5), (second.number, 6, 8))
    job.finish(third)


def test_the_processes_of_a_pod_are_killed_and_its_replacement_restores_from_the_others(
    own_space: Space, measured: Measured
) -> None:
    job = KeptJob(own_space)
    first = job.start(patient(job.manifest()))
    job.train_to(5, first)
    job.kill_keeper(first.pods[2])
    job.train_to(6, first)
    job.await_copies(6, first)
    lost = first.pods[1]
    killed_at_s = job.kill_all_processes(lost)
    own_space.replaced(lost)
    second = job.next_round(first.number, 3)
    running_s = own_space.running(second.number)
    measured("pod's processes SIGKILLed -> replaced, every worker started, with kept steps", running_s - killed_at_s)
    assert lost not in second.pods
    assert second.restored == 6
    assert own_space.counts()[2] == 1
    job.finish(second)


def test_two_lost_pods_take_the_newest_steps_and_an_older_one_is_restored(own_space: Space) -> None:
    job = KeptJob(own_space)
    first = job.start(patient(job.manifest(keep=SLOW)))
    job.train_to(4, first)
    own_space.kill_worker(2)
    second = job.next_round(first.number, 3)
    assert second.restored == 4  # now each pod has all of it
    job.train_to(9, second)
    job.kill_all_processes(*second.pods[1:])
    third = _without(job, second, *second.pods[1:])
    assert third.restored == 4
    assert third.segments == ((first.number, 1, 4),)
    job.finish(third)


def test_a_frozen_pod_that_continues_brings_no_step_back(own_space: Space) -> None:
    job = KeptJob(own_space, shape=ALONE)
    spec = {"replicas": 2, "minReplicas": 1, "lostPodTimeoutSeconds": 600}
    first = job.start(hurried(spread(job.manifest(keep=SLOW, **spec))))
    stays, frozen = first.pods
    job.train_to(4, first)
    job.train_to(9, first, pods=[frozen])  # its steps are its own
    job.order(4, [frozen])  # from now on it waits
    with job.frozen(frozen):
        second = job.next_round(first.number, 1)
        assert second.pods == (stays,)
        assert second.restored == 4
        job.train_to(6, second)
    third = job.next_round(second.number, 2)
    assert set(third.pods) == {stays, frozen}
    assert third.restored == 6
    assert third.segments == ((first.number, 1, 4), (second.number, 5, 6))
    assert {number for number, _ in job.held(frozen)} <= {4, 6}
    job.finish(third)


def test_a_pod_that_is_deleted_with_its_grace_serves_the_parts_that_only_it_has(own_space: Space) -> None:
    job = KeptJob(own_space)
    first = job.start(hurried(job.manifest(keep=SLOW, minReplicas=2)))
    job.train_to(6, first)
    own_space.delete_pod(first.pods[1])
    second = job.next_round(first.number, 2)
    assert second.pods == (first.pods[0], first.pods[2])
    assert second.restored == 6
    own_space.replaced(first.pods[1])
    third = job.next_round(second.number, 3)
    assert third.restored == 6
    job.finish(third)


def test_a_deleted_job_gives_its_memory_up_on_all_nodes(own_space: Space) -> None:
    job = KeptJob(own_space)
    first = job.start(patient(job.manifest()))
    job.train_to(6, first)
    job.await_copies(6, first)
    eventually(lambda: own_space.status().get("keep", {}).get("step") == 6, within_s=90, what="the step in the status")
    assert len([line for line in job.memory() if "elasticjob-keep" in line]) == 3
    own_space.delete_job()
    job.await_no_memory()


def _without(job: KeptJob, before: Round, *gone: str) -> Round:
    """Wait until as many other pods run in a later round as in the one before; return it."""
    for pod in gone:
        job.space.replaced(pod)
    after = job.next_round(before.number, len(before.pods))
    assert not {*gone} & {*after.pods}
    return after
