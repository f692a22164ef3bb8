"""How a job's time is spent and how its agents are, in a few words that are the same for every job."""

from dataclasses import replace

import pytest

from elasticjob_api.records import WorkerState
from elasticjob_api.rendezvous_state import Cause, State
from elasticjob_operator.metrics.goodput import Goodput
from elasticjob_operator.metrics.job_health import AgentHealth, Spent, Standing, standing
from elasticjob_operator.model.job_key import JobKey
from elasticjob_operator.model.job_state import Ledger
from elasticjob_operator.model.rendezvous_view import View
from testing.builders import job, member, membership, node, pod, report, running, seen, view, world

KEY = JobKey("team", "digits", "u")


@pytest.mark.parametrize(
    ("at", "spent"),
    [
        pytest.param(view(0), Spent.WAITING, id="no world yet"),
        pytest.param(view(0, world=world()), Spent.WAITING, id="the first round forms"),
        pytest.param(running(0), Spent.ACTIVE, id="a round is active"),
        pytest.param(view(0, world=world(round=2), membership=membership(0)), Spent.FORMING, id="between two rounds"),
        pytest.param(view(0, world=world(State.SUSPENDED)), None, id="suspended"),
        pytest.param(view(0, world=world(State.SUCCEEDED, cause=Cause.SUCCEEDED)), None, id="ended"),
    ],
)
def test_time_is_spent_on(at: View, spent: Spent | None) -> None:
    assert standing(seen(job(), at, pod(0))).spent is spent


def test_a_member_works_and_a_joiner_is_idle() -> None:
    at = running(0, nodes={member(0): node(0), member(1): node(1)})
    assert standing(seen(job(), at)).agents == {AgentHealth.WORKING: 1, AgentHealth.IDLE: 1}


def test_who_leaves_and_who_hangs_is_told_apart() -> None:
    silent = replace(report(1, WorkerState.HEALTHY), stalled_since_ns=1)
    at = running(0, 1, nodes={member(0): node(0, leaving=True), member(1): node(1)}, reports={member(1): silent})
    assert standing(seen(job(), at)).agents == {AgentHealth.LEAVING: 1, AgentHealth.STALLED: 1}


def test_a_running_pod_without_an_agent_is_missing_one() -> None:
    ledger = Ledger(agentless_since_s={"uid-j-0-a": 1.0})
    assert standing(seen(job(), view(), ledger=ledger)).agents == {AgentHealth.MISSING: 1}


def test_a_job_that_is_gone_keeps_what_it_has_spent_and_has_no_agents() -> None:
    now_s = 0.0
    goodput = Goodput(lambda: now_s)
    goodput.note(KEY, Standing(Spent.ACTIVE, {AgentHealth.WORKING: 1}))
    now_s = 2.5
    goodput.note(KEY, None)
    now_s = 9.0
    assert goodput.spent_s() == {("team", "active"): 2.5}
    assert not goodput.agents()


def test_a_job_that_nobody_disturbs_grows_its_time_at_every_look() -> None:
    now_s = 0.0
    goodput = Goodput(lambda: now_s)
    goodput.note(KEY, Standing(Spent.ACTIVE, {}))
    now_s = 1.0
    assert goodput.spent_s() == {("team", "active"): 1.0}
    now_s = 3.0
    assert goodput.spent_s() == {("team", "active"): 3.0}
