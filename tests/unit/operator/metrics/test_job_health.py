"""The state that a job's time counts for, and the health of its agents."""

from dataclasses import replace
from typing import Any

import pytest

from elasticjob_api.constants import KEEP_PERSIST_EVERY_S
from elasticjob_api.records import KeepReport, WorkerState
from elasticjob_api.rendezvous_state import Cause, RoundPhase
from elasticjob_api.rendezvous_view import RendezvousView
from elasticjob_api.spec import Keep
from elasticjob_api.status import JobStatus, KeepStatus
from elasticjob_operator.metrics.goodput import Goodput
from elasticjob_operator.metrics.job_health import (
    AgentHealth,
    JobHealth,
    KeepHealth,
    KeepSample,
    PersistHealth,
    TimeBucket,
    job_health,
    persist_health,
)
from elasticjob_operator.model.job_key import JobKey
from elasticjob_operator.model.job_state import JobState
from testing.builders import (
    NOW_S,
    ago,
    condition,
    job,
    member,
    membership,
    node,
    pod,
    report,
    running,
    samples,
    seen,
    state,
    view,
)

KEY = JobKey("team", "digits", "u")


@pytest.mark.parametrize(
    ("at", "spent"),
    [
        pytest.param(view(0), TimeBucket.WAITING, id="no state yet"),
        pytest.param(view(0, state=state()), TimeBucket.WAITING, id="the first round forms"),
        pytest.param(running(0), TimeBucket.ACTIVE, id="a round is active"),
        pytest.param(
            view(0, state=state(round=2), membership=membership(0)), TimeBucket.FORMING, id="between two rounds"
        ),
        pytest.param(view(0, state=state(RoundPhase.SUSPENDED)), None, id="suspended"),
        pytest.param(view(0, state=state(RoundPhase.SUCCEEDED, cause=Cause.SUCCEEDED)), None, id="ended"),
    ],
)
def test_time_counts_for_the_state_of_the_job(at: RendezvousView, spent: TimeBucket | None) -> None:
    assert job_health(seen(job(), at, pod(0))).bucket is spent


def test_a_member_works_and_a_joiner_is_idle() -> None:
    at = running(0, nodes={member(0): node(0), member(1): node(1)})
    assert job_health(seen(job(), at)).agents == {AgentHealth.WORKING: 1, AgentHealth.IDLE: 1}


def test_a_leaving_agent_and_a_hanging_one_are_distinguished() -> None:
    silent = replace(report(1, WorkerState.HEALTHY), stalled_since_ns=1)
    at = running(0, 1, nodes={member(0): node(0, leaving=True), member(1): node(1)}, reports={member(1): silent})
    assert job_health(seen(job(), at)).agents == {AgentHealth.LEAVING: 1, AgentHealth.STALLED: 1}


def test_a_running_pod_without_an_agent_counts_as_missing() -> None:
    job_state = JobState(agentless_since_s={"uid-j-0-a": 1.0})
    assert job_health(seen(job(), view(), job_state=job_state)).agents == {AgentHealth.MISSING: 1}


@pytest.mark.parametrize(
    ("reported", "keep"),
    [
        (KeepReport(held_bytes=5), KeepHealth.UNCOMMITTED),
        (KeepReport(held_bytes=5, round=1, step=3), KeepHealth.COMMITTED),
        (KeepReport(held_bytes=5, round=1, step=3, degraded="why"), KeepHealth.DEGRADED),
    ],
)
def test_the_health_of_kept_steps_is_that_of_the_condition_or_else_of_the_commit(
    reported: KeepReport, keep: KeepHealth
) -> None:
    at = running(0, samples={member(0): samples(keep=reported)})
    of = job(keep=Keep(size_limit="1Gi"), max_replicas=2)
    found = job_health(seen(of, at, pod(0)))
    assert (found.keep, found.kept.held_bytes, found.persist) == (keep, 5, None)
    assert job_health(seen(job(), at, pod(0))).keep is None


@pytest.mark.parametrize(
    ("reported", "persist"),
    [
        (KeepReport(), PersistHealth.NONE),
        (KeepReport(persisted_step=0), PersistHealth.PERSISTED),
        (KeepReport(persisted_step=3, persist_error="full"), PersistHealth.FAILING),
        (KeepReport(persisted_step=3, persist_error="not there", is_waiting=True), PersistHealth.WAITING),
    ],
)
def test_the_health_of_persisted_steps_is_beside_that_of_the_memory(
    reported: KeepReport, persist: PersistHealth
) -> None:
    committed = replace(reported, round=1, step=3, copies=2, committed_ns=7 * 10**9)
    at = running(0, samples={member(0): samples(keep=committed)})
    of = job(keep=Keep(size_limit="1Gi", persist_to="/ckpt"), max_replicas=2)
    found = job_health(seen(of, at, pod(0)))
    assert (found.keep, found.persist) == (KeepHealth.COMMITTED, persist)
    assert (found.kept.held_bytes, found.kept.copies, found.kept.committed_at_s) == (0, 2, 7.0)


COMMITTED = KeepReport(round=1, step=30, persisted_step=20, persisted_ns=int((NOW_S - 1000.0) * 1e9))


def late_at_s(reported: KeepReport, *, at: RendezvousView | None = None, **spec: Any) -> float | None:
    """Return when the persisted step of a job is late that began 5,000 s ago and persists every 600 s."""
    at = replace(at or running(0), samples={member(0): samples(keep=reported)})
    keep = Keep(size_limit="1Gi", **{"persist_to": "/ckpt", "persist_every_s": 600.0, **spec})
    of = job(keep=keep, max_replicas=2, status=JobStatus(start_time=ago(5000)))
    return job_health(seen(of, at, pod(0))).kept.late_at_s


def test_a_persisted_step_is_late_after_three_intervals_if_a_newer_step_is_committed() -> None:
    assert late_at_s(COMMITTED) == NOW_S - 1000.0 + 1800.0
    assert late_at_s(COMMITTED, persist_every_s=None) == NOW_S - 1000.0 + 3 * KEEP_PERSIST_EVERY_S
    assert late_at_s(KeepReport(round=1, step=30)) == NOW_S - 5000.0 + 1800.0, "none yet: since the start of the job"


def test_after_a_suspension_a_persisted_step_is_late_three_intervals_after_the_resume() -> None:
    day_old = replace(COMMITTED, persisted_ns=int((NOW_S - 86_400.0) * 1e9))
    assert late_at_s(day_old) == NOW_S - 5000.0 + 1800.0


@pytest.mark.parametrize("at", [view(), running(0)], ids=["etcd was wiped", "etcd has an older state"])
def test_a_finished_job_counts_as_none_though_etcd_has_lost_its_end(at: RendezvousView) -> None:
    ended = JobStatus(conditions=(condition("Complete"),), keep=KeepStatus(step=3, persist_error="full"))
    found = job_health(seen(job(keep=Keep(size_limit="1Gi", persist_to="/ckpt", copies=3), status=ended), at))
    assert (found.bucket, found.keep, found.persist) == (None, None, None)


def test_trouble_with_the_memory_counts_beside_a_directory_that_cannot_be_read() -> None:
    at = running(0, samples={member(0): samples(keep=KeepReport(persist_error="x", is_waiting=True, degraded="y"))})
    found = job_health(seen(job(keep=Keep(size_limit="1Gi", persist_to="/ckpt"), max_replicas=2), at, pod(0)))
    assert (found.keep, found.persist) == (KeepHealth.DEGRADED, PersistHealth.WAITING)


def test_no_persisted_step_is_late_if_nothing_newer_could_be_there() -> None:
    assert late_at_s(replace(COMMITTED, step=20)) is None
    assert late_at_s(replace(COMMITTED, step=None, round=0)) is None
    assert late_at_s(COMMITTED, persist_to=None) is None
    assert late_at_s(COMMITTED, at=view(0, state=state(), membership=membership(0))) is None, "no round is active"


def test_a_job_becomes_late_with_time_alone_and_one_that_cannot_write_is_failing() -> None:
    kept = KeepSample(late_at_s=100.0)
    for persist, later in (
        (PersistHealth.PERSISTED, PersistHealth.LATE),
        (PersistHealth.NONE, PersistHealth.LATE),
        (PersistHealth.FAILING, PersistHealth.FAILING),
        (PersistHealth.WAITING, PersistHealth.WAITING),
    ):
        of = JobHealth(TimeBucket.ACTIVE, {}, KeepHealth.COMMITTED, kept, persist)
        assert (persist_health(of, 99.0), persist_health(of, 100.0)) == (persist, later)


def test_the_time_of_a_deleted_job_remains_counted_and_its_agents_do_not() -> None:
    now_s = 0.0
    goodput = Goodput(lambda: now_s)
    goodput.record(KEY, JobHealth(TimeBucket.ACTIVE, {AgentHealth.WORKING: 1}))
    now_s = 2.5
    goodput.record(KEY, None)
    now_s = 9.0
    assert goodput.spent_s() == {("team", "active"): 2.5}
    assert not goodput.agents()


def test_the_time_of_an_unchanged_job_grows_at_every_scrape() -> None:
    now_s = 0.0
    goodput = Goodput(lambda: now_s)
    goodput.record(KEY, JobHealth(TimeBucket.ACTIVE, {}))
    now_s = 1.0
    assert goodput.spent_s() == {("team", "active"): 1.0}
    now_s = 3.0
    assert goodput.spent_s() == {("team", "active"): 3.0}
