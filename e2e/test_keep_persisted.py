"""Steps that are persisted to a volume that all nodes mount: what is restored when no pod has a step in memory."""

import pytest

from e2e.kept_job import KeptJob
from e2e.manifests import patient
from e2e.shared_volume import SharedVolume
from e2e.space import Space
from testing.waiting import eventually

pytestmark = pytest.mark.timeout(500)

ONLY_AT_THE_END = {"persistEverySeconds": 3600}
"""No step is persisted while the job trains."""


@pytest.mark.nightly
def test_all_pods_are_killed_while_a_step_is_written_and_the_whole_one_before_is_restored(
    own_space: Space, volume: SharedVolume
) -> None:
    job = KeptJob(own_space)
    first = job.start(volume.mounted(patient(job.manifest()), bandwidth="32Ki"))
    job.train_to(4, first)
    volume.await_whole(4)
    job.train_to(5, first)
    volume.await_unfinished(5)
    job.kill_all_processes(*first.pods)
    assert volume.whole_steps()[-1] == 4
    assert volume.unfinished_steps() == [5]
    for pod in first.pods:
        own_space.replaced(pod)
    second = job.next_round(first.number, 3)
    assert not {*first.pods} & {*second.pods}
    assert second.restored == 4
    assert second.segments == ((first.number, 1, 4),)
    job.train_to(6, second)
    volume.await_whole(6)
    eventually(lambda: not volume.unfinished_steps(), what="the torn step is removed")
    job.finish(second)
    assert volume.whole_steps()[-1] == job.steps


def test_a_suspended_job_goes_on_from_its_newest_step_and_one_of_the_same_name_does(
    own_space: Space, volume: SharedVolume
) -> None:
    job = KeptJob(own_space)
    manifest = volume.mounted(patient(job.manifest()), **ONLY_AT_THE_END)
    first = job.start(manifest)
    job.train_to(5, first)
    _suspend(job)
    assert volume.whole_steps() == [5]
    own_space.suspend(value=False)
    second = job.next_round(first.number, 3)
    assert second.restored == 5
    assert volume.shown() == 5
    job.train_to(7, second)
    _suspend(job)
    assert volume.whole_steps() == [5, 7]
    own_space.delete_job()
    own_space.apply(manifest)
    anew = job.next_round(0, 3)
    assert anew.restored == 7
    assert anew.segments == ((first.number, 1, 5), (second.number, 6, 7))
    job.finish(anew)


def _suspend(job: KeptJob) -> None:
    job.space.suspend(value=True)
    job.space.wait(phase="Suspended", replicas=0)
    job.space.kubectl("wait", "pods", "--all", "--for=delete", "--timeout=60s")
    job.await_no_memory()
