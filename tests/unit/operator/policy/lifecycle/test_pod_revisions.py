"""The revision of a job: from this process, from the pods, from the status; and when it is not known."""

from dataclasses import replace
from typing import Any

import pytest

from elasticjob_api.spec import Agent, AgentMode
from elasticjob_api.status import JobStatus
from elasticjob_operator.model.job_state import JobState
from elasticjob_operator.model.pod import Pod
from elasticjob_operator.model.revision import Revision, template_hash
from elasticjob_operator.model.snapshot import JobSnapshot
from elasticjob_operator.policy.lifecycle.pod_revisions import current_revision, is_revision_outdated
from testing.builders import SETTINGS, job, pod, record, running, seen, template, view

NEW = replace(SETTINGS, agent_image="agent:new")
HASH = template_hash(job())


def current_pod(slot: int = 0, **fields: Any) -> Pod:
    return pod(slot, **{"template_hash": HASH, "agent_image": "agent:old", **fields})


def outdated_pod(slot: int = 0, **fields: Any) -> Pod:
    return current_pod(slot, **{"template_hash": "old", **fields})


def snapshot(*pods: Pod, slots: tuple[int, ...] = (0,), known: Revision | None = None, **fields: Any) -> JobSnapshot:
    """Return a snapshot in a process that knows only the revision `known`."""
    given = {"settings": NEW, **fields}
    found = seen(given.pop("of", job()), given.pop("at", view(*slots)), *pods, **given)
    found.job_state.revision = known
    return found


def test_a_job_that_starts_has_the_current_template_and_agent() -> None:
    suspended = view(spec=record(suspended=True))
    assert current_revision(snapshot(at=suspended)) == Revision(HASH, "agent:new")
    assert current_revision(snapshot(outdated_pod(), at=suspended, known=Revision("old", "agent:old"))) == Revision(
        HASH, "agent:new"
    )


def test_a_running_job_keeps_the_revision_that_this_process_knows() -> None:
    known = Revision("old", "agent:old")
    assert current_revision(snapshot(current_pod(), known=known)) == known


def test_a_new_process_reads_the_revision_from_the_pods() -> None:
    assert current_revision(snapshot(current_pod())) == Revision(HASH, "agent:old")
    assert current_revision(snapshot(outdated_pod())) == Revision("old", "agent:old")


def test_pods_without_the_label_count_as_of_the_current_template_and_keep_their_agent() -> None:
    unlabelled = current_pod(template_hash="")
    assert current_revision(snapshot(unlabelled)) == Revision(HASH, "agent:old")
    assert not is_revision_outdated(snapshot(unlabelled))


def test_the_revision_is_unknown_while_an_unobserved_pod_may_exist() -> None:
    assert current_revision(snapshot(slots=(0, 1))) is None


def test_the_agent_is_read_from_the_status_once_no_pod_can_exist() -> None:
    job_state = JobState()
    job_state.observed_absent("j-0-a")
    gone = snapshot(of=job(status=JobStatus(agent_image="agent:status")), job_state=job_state)
    assert current_revision(gone) == Revision(HASH, "agent:status")


def test_a_job_that_provides_the_agent_has_no_agent_image() -> None:
    provided = job(agent=Agent(mode=AgentMode.PROVIDED))
    assert current_revision(snapshot(current_pod(template_hash=template_hash(provided)), of=provided)) == Revision(
        template_hash(provided), ""
    )


def test_adopted_pods_keep_their_agent_after_a_wipe_of_etcd() -> None:
    wiped = view(spec=None)
    assert current_revision(snapshot(current_pod(), at=wiped)) == Revision(HASH, "agent:old")
    assert current_revision(snapshot(at=wiped)) == Revision(HASH, "agent:new")


@pytest.mark.parametrize("known", [None, Revision("old", "agent:old")])
def test_the_revision_is_outdated_once_the_template_has_changed(known: Revision | None) -> None:
    assert is_revision_outdated(snapshot(outdated_pod(), known=known))


def test_the_revision_is_outdated_also_before_the_first_pod_is_observed() -> None:
    assert is_revision_outdated(snapshot(of=job(template=template(image="img:2")), known=Revision(HASH, "agent:old")))


def test_a_pod_outside_the_slot_map_does_not_make_the_revision_outdated() -> None:
    stray = outdated_pod(1, name="j-1-late")
    assert not is_revision_outdated(snapshot(current_pod(), stray, at=running(0)))
    assert snapshot(current_pod(), stray, at=running(0)).outdated_pods == {"j-1-late": stray}
