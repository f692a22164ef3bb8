"""The digits job has a dead worker and a deleted pod, succeeds, and leaves nothing behind.

Its image has no agent: the operator injects it. The job runs once and its observations are recorded; each test checks
one aspect of them.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from e2e.cluster import Cluster
from e2e.manifests import digits, injected, patient
from e2e.space import KINDS, Space, pod_of

pytestmark = pytest.mark.timeout(400)

KILLED_RANK = 3


@dataclass(frozen=True, slots=True)
class Story:
    """The observations, in the order of events."""

    space: Space
    installed_and_running_s: float
    """From the installation's command to a running job, without the time between the two commands."""
    pods_at_first: tuple[str, ...]
    row_at_first: dict[str, str]
    killed_in: str
    """The pod whose worker was killed."""
    after_kill: dict[str, Any]
    """The status when the next round ran; the next field likewise."""
    deleted: str
    """The pod that was deleted."""
    after_deletion: dict[str, Any]
    end: dict[str, Any]
    row_at_end: dict[str, str]
    log: tuple[str, ...]
    """The log of rank 0's pod, over all rounds."""


@pytest.fixture(scope="module")
def story(space: Space, cluster: Cluster, measured: Callable[[str, float], None]) -> Story:
    applied_at = time.time()
    space.apply(patient(injected(digits(epochs=30))))
    first = space.wait(phase="Running", readyReplicas=3)
    started_s = space.running(1) - applied_at
    measured("kubectl apply -> every worker of 3 pods started", started_s)
    row_at_first = space.row()
    space.reached(60)
    killed_at = space.kill_worker(KILLED_RANK)
    after_kill = space.wait(restarts=1, rendezvousRound=2, readyReplicas=3)
    measured("worker SIGKILLed -> every worker of the next round started", space.running(2) - killed_at)
    space.reached(150)
    deleted_at = space.delete_pod(pod_of(after_kill, 2))
    after_deletion = space.replaced(pod_of(after_kill, 2))
    replaced_at = space.running(after_deletion["rendezvousRound"])
    measured("kubectl delete pod -> replaced, every worker of that round started", replaced_at - deleted_at)
    end = space.wait(phase="Succeeded")
    return Story(
        space=space,
        installed_and_running_s=cluster.installed_s + started_s,
        pods_at_first=tuple(node["podName"] for node in first["nodes"]),
        row_at_first=row_at_first,
        killed_in=pod_of(first, 1),
        after_kill=after_kill,
        deleted=pod_of(after_kill, 2),
        after_deletion=after_deletion,
        end=end,
        row_at_end=space.row(),
        log=tuple(text for _, text in space.log(end["masterPod"])),
    )


def test_from_the_installation_to_the_first_job_that_runs_it_takes_a_minute_at_most(story: Story) -> None:
    assert story.installed_and_running_s <= 60


def test_a_killed_worker_is_named_in_the_status_with_its_pod_and_signal(story: Story) -> None:
    failure = story.after_kill["lastFailure"]
    reported = {field: failure[field] for field in ("rank", "localRank", "podName", "signal", "exitCode", "round")}
    assert reported == {
        "rank": KILLED_RANK,
        "localRank": 1,
        "podName": story.killed_in,
        "signal": "SIGKILL",
        "exitCode": 137,
        "round": 1,
    }


def test_a_killed_worker_costs_one_restart_and_one_round_in_the_same_pods(story: Story) -> None:
    status = story.after_kill
    assert (status["restarts"], status["rendezvousRound"], status["nodeLosses"]) == (1, 2, 0)
    assert tuple(node["podName"] for node in status["nodes"]) == story.pods_at_first


def test_a_deleted_pod_is_replaced_and_not_charged(story: Story) -> None:
    status = story.after_deletion
    counted = {name: status[name] for name in ("restarts", "nodeLosses", "podReplacements")}
    assert counted == {"restarts": 1, "nodeLosses": 0, "podReplacements": 0}
    assert status["rendezvousRound"] == 3
    before, after = set(story.pods_at_first), {node["podName"] for node in status["nodes"]}
    assert before - after == {story.deleted}
    assert len(after - before) == 1


def test_the_job_succeeds_with_all_six_workers_and_nothing_more_charged(story: Story) -> None:
    end = story.end
    assert end["workerStates"] == dict.fromkeys(end["workerStates"], 0) | {"succeeded": 6}
    assert (end["restarts"], end["nodeLosses"]) == (1, 0)
    assert end["rendezvousRound"] == story.after_deletion["rendezvousRound"]
    assert end["lastFailure"] == story.after_kill["lastFailure"]


def test_rank_0_proves_that_no_step_was_lost(story: Story) -> None:
    verdicts = [line for line in story.log if "] proof: " in line]
    assert len(verdicts) == 4, story.log[-10:]
    assert [line for line in verdicts if not line.endswith(": holds")] == []


def test_kubectl_get_shows_the_job_running_and_ended(story: Story) -> None:
    age = story.row_at_first.pop("AGE"), story.row_at_end.pop("AGE")
    assert all(age)
    shown = {"NAME": "digits", "DESIRED": "3", "REASON": ""}
    assert story.row_at_first == shown | {"PHASE": "Running", "READY": "3", "RESTARTS": "0"}
    assert story.row_at_end == shown | {"PHASE": "Succeeded", "READY": "0", "RESTARTS": "1"}


def test_kubectl_delete_leaves_no_pod_no_service_and_no_key(story: Story) -> None:
    space, uid = story.space, story.space.job()["metadata"]["uid"]
    assert len(space.objects(KINDS)) == 5
    assert space.cluster.etcd_keys(uid) != []
    space.delete_job()
    assert space.objects(KINDS) == []
    assert space.cluster.etcd_keys(uid) == []
