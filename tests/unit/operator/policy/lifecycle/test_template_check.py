"""Which pod is created with strict validation of its template."""

from dataclasses import replace
from typing import Any

import pytest

from elasticjob_api.status import JobStatus
from elasticjob_operator.model.slot_pod import PodState, SlotPod
from elasticjob_operator.policy.lifecycle.template_check import must_validate_template
from testing.builders import ago, job, seen, view


def is_strict(*states: PodState, **status: Any) -> bool:
    owners = {slot: SlotPod(f"j-{slot}-a", state) for slot, state in enumerate(states)}
    return must_validate_template(replace(seen(job(status=JobStatus(**status)), view()), owners=owners))


def test_the_first_pod_of_a_job_is_created_strictly() -> None:
    assert is_strict(PodState.PENDING_CREATE, PodState.PENDING_CREATE, start_time=ago(5))
    assert is_strict(PodState.PENDING_CREATE, PodState.NEVER_CREATED)


@pytest.mark.parametrize("other", [s for s in PodState if s not in {PodState.PENDING_CREATE, PodState.NEVER_CREATED}])
def test_no_pod_is_created_strictly_once_a_slot_has_had_a_pod(other: PodState) -> None:
    assert not is_strict(PodState.PENDING_CREATE, other)


def test_no_pod_is_created_strictly_once_a_round_has_run() -> None:
    assert not is_strict(PodState.PENDING_CREATE, start_time=ago(100), last_rendezvous_time=ago(50))


def test_the_first_pod_after_a_suspension_is_created_strictly() -> None:
    assert is_strict(PodState.PENDING_CREATE, start_time=ago(10), last_rendezvous_time=ago(500))
