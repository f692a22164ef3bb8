"""Kept steps when as many pods are lost as there are copies, or more; and pods without any privilege."""

import pytest

from e2e.kept_job import KeptJob
from e2e.manifests import injected, patient, restricted, spread
from e2e.shared_volume import SharedVolume
from e2e.space import Space
from testing.waiting import eventually

pytestmark = pytest.mark.timeout(500)


@pytest.mark.nightly
def test_both_pods_are_killed_and_the_training_begins_anew_and_that_is_reported(own_space: Space) -> None:
    job = KeptJob(own_space)
    first = job.start(patient(job.manifest(replicas=2)))
    job.train_to(6, first)
    job.await_copies(6, first)
    job.kill_all_processes(*first.pods)
    for pod in first.pods:
        own_space.replaced(pod)
    second = job.next_round(first.number, 2)
    assert second.restored is None
    assert second.segments == ()
    _await_reported(own_space, second.number, None)
    job.finish(second)


@pytest.mark.nightly
def test_both_pods_are_killed_and_the_persisted_step_is_restored_and_that_is_reported(
    own_space: Space, volume: SharedVolume
) -> None:
    job = KeptJob(own_space)
    first = job.start(volume.mounted(patient(job.manifest(replicas=2))))
    job.train_to(6, first)
    volume.await_whole(6)
    job.kill_all_processes(*first.pods)
    for pod in first.pods:
        own_space.replaced(pod)
    second = job.next_round(first.number, 2)
    assert second.restored == 6
    _await_reported(own_space, second.number, 6)
    job.finish(second)


@pytest.mark.nightly
def test_two_copies_outlive_two_pods_deleted_by_force_and_nothing_outlives_the_job(own_space: Space) -> None:
    job = KeptJob(own_space)
    first = job.start(spread(patient(job.manifest(keep={"copies": 2}))))
    job.train_to(6, first)
    job.await_copies(6, first, holders=3)
    eventually(lambda: own_space.status()["keep"].get("copies") == 2, within_s=90, what="two copies", pause_s=0.5)
    own_space.kubectl("delete", "pod", *first.pods[1:], "--grace-period=0", "--force", "--wait=false")
    for pod in first.pods[1:]:
        own_space.replaced(pod)
    second = job.next_round(first.number, 3)
    assert first.pods[0] in second.pods
    assert second.restored == 6
    job.train_to(7, second)
    job.await_copies(7, second, holders=3)
    assert len([line for line in job.memory() if "elasticjob-keep" in line]) == 3
    own_space.delete_job()
    job.await_no_memory()


def test_workers_of_any_user_keep_and_persist_steps_where_the_restricted_standard_is_enforced(
    own_space: Space, volume: SharedVolume
) -> None:
    own_space.cluster.kubectl("label", "namespace", own_space.name, "pod-security.kubernetes.io/enforce=restricted")
    job = KeptJob(own_space)
    manifest = restricted(injected(volume.mounted(patient(job.manifest(replicas=2)))))
    # No image knows this user. Neither the volume in memory nor the one on disk belongs to it.
    manifest["spec"]["template"]["spec"]["securityContext"]["runAsUser"] = 12345
    first = job.start(manifest)
    assert own_space.kubectl("exec", first.pods[0], "--", "id", "-u").strip() == "12345"
    job.train_to(6, first)
    job.await_copies(6, first)
    volume.await_whole(6)
    lost = first.pods[1]
    job.kill_all_processes(lost)
    own_space.replaced(lost)
    second = job.next_round(first.number, 2)
    assert second.restored == 6
    job.finish(second)


def _await_reported(space: Space, round_: int, step: int | None) -> None:
    """Wait until the status and an event name the step that this round restores."""
    restored = {each["round"]: each.get("restoredStep") for each in space.status()["rounds"]}
    assert restored[round_] == step
    wanted = "no kept step was restored" if step is None else f"kept step {step} is to be restored"

    def is_reported() -> bool:
        messages = space.kubectl("get", "events", "-o", "jsonpath={.items[*].message}")
        return f"round {round_}: 2 nodes, 2 workers; {wanted}" in messages

    eventually(is_reported, within_s=60, what=f"an event: {wanted}", pause_s=0.5)
