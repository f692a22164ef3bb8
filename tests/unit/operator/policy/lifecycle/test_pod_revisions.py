"""Which revision a life has: from this process, from the pods, from the status; and when it must not be guessed."""

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


def of_today(slot: int = 0, **fields: Any) -> Pod:
    return pod(slot, **{"template_hash": HASH, "agent_image": "agent:old", **fields})


def of_before(slot: int = 0, **fields: Any) -> Pod:
    return of_today(slot, **{"template_hash": "old", **fields})


def look(*pods: Pod, slots: tuple[int, ...] = (0,), known: Revision | None = None, **fields: Any) -> JobSnapshot:
    """By a process that remembers nothing but what is `known`."""
    given = {"settings": NEW, **fields}
    found = seen(given.pop("of", job()), given.pop("at", view(*slots)), *pods, **given)
    found.job_state.revision = known
    return found


def test_a_life_that_begins_has_the_template_and_the_agent_of_today() -> None:
    suspended = view(spec=record(suspended=True))
    assert current_revision(look(at=suspended)) == Revision(HASH, "agent:new")
    assert current_revision(look(of_before(), at=suspended, known=Revision("old", "agent:old"))) == Revision(
        HASH, "agent:new"
    )


def test_a_life_keeps_what_this_process_knows_of_it() -> None:
    known = Revision("old", "agent:old")
    assert current_revision(look(of_today(), known=known)) == known


def test_a_new_process_learns_it_from_the_pods() -> None:
    assert current_revision(look(of_today())) == Revision(HASH, "agent:old")
    assert current_revision(look(of_before())) == Revision("old", "agent:old")


def test_pods_of_a_version_that_set_no_label_are_of_todays_template_and_keep_their_agent() -> None:
    unlabelled = of_today(template_hash="")
    assert current_revision(look(unlabelled)) == Revision(HASH, "agent:old")
    assert not is_revision_outdated(look(unlabelled))


def test_nothing_is_guessed_while_a_pod_may_be_there_that_was_not_seen() -> None:
    assert current_revision(look(slots=(0, 1))) is None


def test_once_no_pod_can_be_there_the_status_remembers_the_agent() -> None:
    job_state = JobState()
    job_state.observed_absent("j-0-a")
    gone = look(of=job(status=JobStatus(agent_image="agent:told")), job_state=job_state)
    assert current_revision(gone) == Revision(HASH, "agent:told")


def test_a_pod_whose_image_has_the_agent_is_given_none() -> None:
    provided = job(agent=Agent(mode=AgentMode.PROVIDED))
    assert current_revision(look(of_today(template_hash=template_hash(provided)), of=provided)) == Revision(
        template_hash(provided), ""
    )


def test_after_the_loss_of_etcd_pods_that_are_adopted_keep_their_agent() -> None:
    wiped = view(spec=None)
    assert current_revision(look(of_today(), at=wiped)) == Revision(HASH, "agent:old")
    assert current_revision(look(at=wiped)) == Revision(HASH, "agent:new")


@pytest.mark.parametrize("known", [None, Revision("old", "agent:old")])
def test_a_life_is_outdated_once_the_template_has_changed(known: Revision | None) -> None:
    assert is_revision_outdated(look(of_before(), known=known))


def test_a_life_is_outdated_also_before_its_first_pod_is_seen() -> None:
    assert is_revision_outdated(look(of=job(template=template(image="img:2")), known=Revision(HASH, "agent:old")))


def test_a_pod_that_the_map_does_not_name_does_not_end_a_life() -> None:
    stray = of_before(1, name="j-1-late")
    assert not is_revision_outdated(look(of_today(), stray, at=running(0)))
    assert look(of_today(), stray, at=running(0)).outdated_pods == {"j-1-late": stray}
