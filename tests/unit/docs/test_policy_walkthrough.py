"""CONTRIBUTING.md, "Add a policy in 30 minutes": the policy of the page works, called from the place that it names."""

from dataclasses import dataclass, replace

import pytest

from elasticjob_api import codec
from elasticjob_api.constants import FailedReason
from elasticjob_api.job import ElasticJob
from elasticjob_api.job_failure import JobFailure
from elasticjob_api.rendezvous_state import RoundPhase
from elasticjob_api.spec import JobSpec
from elasticjob_api.status import JobStatus
from elasticjob_operator.controller.ids import random_ids
from elasticjob_operator.model.actions import WriteSpec
from elasticjob_operator.model.snapshot import JobSnapshot
from elasticjob_operator.planner import spec_plan
from elasticjob_operator.planner.plan import plan
from testing.builders import active, ago, job, pod, running, seen, template


@dataclass(frozen=True, slots=True, kw_only=True)
class Spec(JobSpec):
    """Step 1: the spec with one field more."""

    max_node_losses: int | None = None


REASON = FailedReason.BELOW_MIN
"""Step 2: an enum gets no new member in a test, so this is an existing one."""


def too_many_losses(of: JobSnapshot) -> JobFailure | None:
    """Return the failure of a job that lost more nodes than its spec allows."""
    spec, state = of.job.spec, of.view.state
    assert isinstance(spec, Spec)
    if spec.max_node_losses is None or state is None or state.node_losses <= spec.max_node_losses:
        return None
    return JobFailure(REASON, f"{state.node_losses} nodes were lost, more than maxNodeLosses ({spec.max_node_losses})")


@pytest.fixture(autouse=True)
def asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Step 4: the rule is asked among those that may end a job."""
    others = spec_plan._failure

    def failure(context: spec_plan.SpecContext) -> JobFailure | None:
        return others(context) or too_many_losses(context.snapshot)

    monkeypatch.setattr(spec_plan, "_failure", failure)


def limited(most: int | None) -> ElasticJob:
    """Return a job with this limit, read as a manifest is."""
    manifest = {"template": template(), **({} if most is None else {"maxNodeLosses": most})}
    return replace(job(status=JobStatus(start_time=ago(100))), spec=codec.read(Spec, manifest))


@pytest.mark.parametrize(
    ("most", "losses", "fails"), [(None, 9, False), (2, 0, False), (2, 2, False), (2, 3, True), (0, 1, True)]
)
def test_a_job_fails_after_more_losses_than_it_allows(most: int | None, losses: int, *, fails: bool) -> None:
    planned = plan(seen(limited(most), running(0, state=active(0, node_losses=losses)), pod(0)), random_ids())
    written = [action.state for action in planned.actions if isinstance(action, WriteSpec)]
    failed = [state.message for state in written if state is not None and state.phase is RoundPhase.FAILED]
    assert failed == ([f"{REASON}: {losses} nodes were lost, more than maxNodeLosses ({most})"] if fails else [])
