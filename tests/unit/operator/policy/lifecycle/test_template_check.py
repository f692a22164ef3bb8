"""Which pod is created strictly, so that its template is judged."""

from typing import Any

import pytest

from elasticjob_api.status import JobStatus
from elasticjob_operator.policy.lifecycle.template_check import must_validate_template
from elasticjob_operator.policy.slots.ownership import PodState, SlotPod
from testing.builders import ago, job, seen, view


def judged(*standings: PodState, **status: Any) -> bool:
    owners = {slot: SlotPod(f"j-{slot}-a", standing) for slot, standing in enumerate(standings)}
    return must_validate_template(seen(job(status=JobStatus(**status)), view()), owners)


def test_the_first_pod_of_a_job_judges_its_template() -> None:
    assert judged(PodState.PENDING_CREATE, PodState.PENDING_CREATE, start_time=ago(5))
    assert judged(PodState.PENDING_CREATE, PodState.NEVER_CREATED)


@pytest.mark.parametrize("other", [s for s in PodState if s not in {PodState.PENDING_CREATE, PodState.NEVER_CREATED}])
def test_where_a_slot_has_or_had_a_pod_the_template_has_been_taken(other: PodState) -> None:
    assert not judged(PodState.PENDING_CREATE, other)


def test_a_job_that_has_run_in_this_life_is_cared_for_whatever_its_template_says() -> None:
    assert not judged(PodState.PENDING_CREATE, start_time=ago(100), last_rendezvous_time=ago(50))


def test_the_first_pod_after_a_suspension_judges_the_template_again() -> None:
    assert judged(PodState.PENDING_CREATE, start_time=ago(10), last_rendezvous_time=ago(500))
