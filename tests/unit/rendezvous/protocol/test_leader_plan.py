"""The leader's next decision."""

from typing import Any

import pytest

from elasticjob_agent.rendezvous.protocol.leader_plan import (
    STOP_MARGIN_S,
    Decision,
    Evict,
    PushConfig,
    Wait,
    WriteState,
    pending_push,
    plan,
)
from elasticjob_api.records import TombstoneReason
from elasticjob_api.rendezvous_state import Cause, RendezvousState, RoundPhase
from elasticjob_api.runtime_config import runtime_config_of
from tests.unit.rendezvous.views import KEYS, OPERATOR, ViewBuilder, member, observed_at, view_builder

NONCE = "fresh"


def next_act(job: ViewBuilder, now_s: float = 0.0, **when: Any) -> Decision:
    return plan(job.build(), observed_at(now_s, **when), NONCE)


def written(job: ViewBuilder, now_s: float = 0.0, **when: Any) -> RendezvousState:
    decision = next_act(job, now_s, **when)
    assert isinstance(decision, WriteState), decision
    assert decision.state.nonce == NONCE
    return decision.state


def waiting(job: ViewBuilder, now_s: float = 0.0, **when: Any) -> Wait:
    decision = next_act(job, now_s, **when)
    assert isinstance(decision, Wait), decision
    return decision


def running(most: int = 3, **spec: Any) -> ViewBuilder:
    """Return a job whose round 1 runs in slots 0, 1 and 2."""
    return view_builder(1, most, **spec).nodes(0, 1, 2).active(1, 0, 1, 2, restarts=1)


def stopped(**spec: Any) -> ViewBuilder:
    """Return a job whose round 1 had slots 0, 1, 2; its members are ready for round 2."""
    return view_builder(1, 3, **spec).nodes(0, 1, 2, ready=2).members(1, 0, 1, 2)


@pytest.mark.parametrize(
    ("job", "why"),
    [
        pytest.param(view_builder().no_spec().nodes(0), "no spec yet", id="without a spec"),
        pytest.param(running().no_spec().lost(1), "no spec yet", id="after the spec was deleted"),
        pytest.param(view_builder(suspended=True).nodes(0), "suspended", id="suspended before it began"),
        pytest.param(running(suspended=True).lost(1), "suspended", id="suspended"),
        pytest.param(
            view_builder().nodes(0).state(RoundPhase.SUSPENDED, 4), "suspended", id="until the operator resumes"
        ),
        pytest.param(
            running().completion(1, 0, 1, 2).state(RoundPhase.FAILED, 1),
            "the job has ended",
            id="after it failed",
        ),
        pytest.param(running().lost(1).state(RoundPhase.SUCCEEDED, 1), "the job has ended", id="after it succeeded"),
    ],
)
def test_the_leader_writes_nothing(job: ViewBuilder, why: str) -> None:
    assert waiting(job) == Wait(reason=why)


def test_changes_for_the_workers_are_pushed_to_the_agents() -> None:
    job = running().unpushed(graceful_shutdown_s=90.0, stop_signal="SIGUSR1")
    decision = next_act(job)
    assert isinstance(decision, PushConfig)
    assert decision.runtime_config is not None
    assert (decision.runtime_config.graceful_shutdown_s, decision.runtime_config.stop_signal) == (90.0, "SIGUSR1")


def test_changes_that_do_not_concern_workers_are_not_pushed() -> None:
    assert waiting(running().unpushed(scale_up_delay_s=99.0)).reason == "running"


@pytest.mark.parametrize("operator", [OPERATOR, None])
def test_a_spec_that_was_emptied_because_the_job_is_deleted_is_not_pushed(operator: str | None) -> None:
    job = running(operator=OPERATOR, graceful_shutdown_s=90.0).expected(0, 1, 2)
    job.unpushed(operator=operator, graceful_shutdown_s=30.0, slots={})
    assert pending_push(job.build()) == PushConfig()


def test_a_changed_spec_of_a_job_that_lives_is_pushed() -> None:
    job = running().owned_by(s0="pod-0").expected(0).unpushed(graceful_shutdown_s=90.0)
    assert pending_push(job.build()).runtime_config is not None


def test_a_round_is_opened_before_a_push() -> None:
    assert written(running().unpushed(graceful_shutdown_s=90.0).lost(1)).phase is RoundPhase.FORMING


def test_agents_without_a_key_for_their_links_get_one() -> None:
    job = running()
    del job.items[KEYS.link_secret]
    assert next_act(job) == PushConfig(link_key=True)


def test_an_unreadable_link_key_is_not_replaced() -> None:
    assert waiting(running().put_raw(KEYS.link_secret, b"2 a later version")).reason == "running"


def test_an_unreadable_runtime_config_is_written_again() -> None:
    job = running().put_raw(KEYS.runtime_config, b"1 nonsense")
    assert next_act(job) == PushConfig(runtime_config_of(job.build().spec or pytest.fail("no spec")))


def test_the_first_state_follows_the_spec() -> None:
    job = view_builder(first_round=1003, first_restarts=2, restart_id="r7").nodes(0)
    expected = RendezvousState(phase=RoundPhase.FORMING, round=1003, nonce=NONCE, restarts=2, restart_id="r7")
    assert written(job) == expected


def test_the_first_round_is_at_least_1() -> None:
    assert written(view_builder(first_round=0)).round == 1


def test_an_unreadable_state_is_never_overwritten_as_if_there_were_none() -> None:
    job = view_builder().nodes(0).put_raw("/elasticjob/cli/test/c/ctl/world", b"nonsense")
    assert waiting(job).reason == "the rendezvous state cannot be read"


def test_a_round_closes_with_all_data_that_its_members_need() -> None:
    job = view_builder(2, 2).node(0, nproc=2, role="a").node(1, role="b").forming(1)
    state = written(job)
    assert (state.phase, state.round, state.members) == (RoundPhase.ACTIVE, 1, (member(0), member(1)))
    assert (state.nprocs, state.roles, state.master) == ("2x1,1x1", "a*1,b*1", "10.0.0.1:20000")


def test_success_comes_before_every_other_rule() -> None:
    job = running().completion(1, 0, 1, 2).lost(1).spec(restart_id="again", desired=1)
    assert (written(job).phase, written(job).cause) == (RoundPhase.SUCCEEDED, Cause.SUCCEEDED)


def test_a_lost_member_opens_the_next_round_and_charges_nothing() -> None:
    state = written(running().lost(1))
    assert (state.phase, state.round, state.restarts, state.has_verdict) == (RoundPhase.FORMING, 2, 1, False)
    assert (state.members, state.master, state.cause) == ((), "", Cause.NODE_LOST)


def test_a_restart_request_opens_one_round() -> None:
    state = written(running().spec(restart_id="again"))
    assert (state.cause, state.restart_id) == (Cause.RESTART_REQUESTED, "again")
    assert isinstance(next_act(running().active(2, 0, 1, 2, restart_id="again").spec(restart_id="again")), Wait)


def test_a_restart_request_during_another_round_needs_no_round_of_its_own() -> None:
    assert written(stopped().forming(2).spec(restart_id="again")).restart_id == "again"


def test_joiners_that_fill_the_job_open_a_round_at_once() -> None:
    state = written(running(most=4).nodes(3))
    assert (state.cause, state.message) == (Cause.NODE_JOINED, "pod-3 joined")


def test_joiners_that_do_not_fill_the_job_wait_for_more_for_a_limited_time() -> None:
    job = running(most=5, scale_up_delay_s=10.0).nodes(3)
    assert waiting(job, 7.0, joiner_since_s=4.0).until_s == 14.0
    assert written(job, 14.0, joiner_since_s=4.0).cause is Cause.NODE_JOINED


def test_a_spare_beyond_the_desired_size_opens_no_round() -> None:
    assert waiting(running(most=3).nodes(3, 4), 1e6) == Wait(reason="running")


# The barrier.


def test_the_round_waits_for_a_member_that_still_stops_and_names_it() -> None:
    wait = waiting(stopped().node(1, ready=1).forming(2))
    assert (wait.until_s, wait.reason) == (30.0 + STOP_MARGIN_S, "pod-1 not ready")


@pytest.mark.parametrize(
    ("cause", "grace_s"),
    [
        pytest.param(Cause.WORKER_FAILED, 5.0, id="short after a failure"),
        pytest.param(Cause.NODE_LOST, 5.0, id="short after a loss"),
        pytest.param(Cause.NODE_LEFT, 30.0, id="the user's after a leave"),
        pytest.param(Cause.NODE_JOINED, 30.0, id="the user's after a join"),
    ],
)
def test_a_node_that_is_not_ready_at_the_stop_deadline_is_evicted_as_wedged(cause: Cause, grace_s: float) -> None:
    job = stopped(failure_grace_s=5.0, graceful_shutdown_s=30.0).node(1, ready=1).forming(2, cause=cause)
    deadline_s = 100.0 + grace_s + STOP_MARGIN_S
    assert waiting(job, deadline_s - 0.01, forming_since_s=100.0).until_s == deadline_s
    assert next_act(job, deadline_s, forming_since_s=100.0) == Evict(member(1), 101, TombstoneReason.WEDGED)


def test_after_a_failure_the_deadline_has_the_grace_of_a_planned_stop_if_that_is_shorter() -> None:
    job = stopped(failure_grace_s=5.0, graceful_shutdown_s=1.0).node(1, ready=1).forming(2, cause=Cause.WORKER_FAILED)
    assert waiting(job, 10.99).until_s == 1.0 + STOP_MARGIN_S
    assert next_act(job, 1.0 + STOP_MARGIN_S) == Evict(member(1), 101, TombstoneReason.WEDGED)


def test_a_leaving_node_keeps_the_users_grace_when_a_failure_opens_the_round() -> None:
    job = stopped(failure_grace_s=5.0, graceful_shutdown_s=30.0).node(1, ready=1, leaving=True)
    job.forming(2, cause=Cause.WORKER_FAILED)
    assert waiting(job, 5.0 + STOP_MARGIN_S).until_s == 30.0 + STOP_MARGIN_S
    assert isinstance(next_act(job, 30.0 + STOP_MARGIN_S), Evict)


def test_a_peer_of_a_leaving_node_does_not_share_its_grace() -> None:
    job = stopped(failure_grace_s=5.0, graceful_shutdown_s=30.0).node(1, ready=1, leaving=True).node(2, ready=1)
    job.forming(2, cause=Cause.WORKER_FAILED)
    assert next_act(job, 5.0 + STOP_MARGIN_S) == Evict(member(2), 102, TombstoneReason.WEDGED)


@pytest.mark.parametrize(
    "job",
    [
        pytest.param(view_builder().nodes(0, 1, 2), id="before the first state"),
        pytest.param(running(), id="in an active round"),
        pytest.param(stopped().forming(2), id="while a round forms"),
        pytest.param(running().completion(1, 0, 1, 2), id="even before success"),
    ],
)
def test_a_live_key_with_a_tombstone_is_revoked_first(job: ViewBuilder) -> None:
    assert next_act(job.tombstone(1, TombstoneReason.POD_FAILED)) == Evict(member(1), 101, TombstoneReason.POD_FAILED)


def test_a_node_that_left_in_order_is_not_evicted() -> None:
    assert written(running().tombstone(1, TombstoneReason.LEFT)).cause is Cause.NODE_LEFT


# The verdict.


def test_the_verdict_is_part_of_the_closing_write() -> None:
    state = written(stopped().failure(1, 1, message="boom").forming(2, cause=Cause.WORKER_FAILED))
    assert (state.phase, state.restarts, state.root_cause) == (RoundPhase.ACTIVE, 1, "1/0001.0")
    assert (state.has_verdict, state.message) == (False, "rank 1 on pod-1 exited with code 1: boom")


def test_the_verdict_is_written_first_when_membership_must_wait() -> None:
    job = stopped().spec(min=4, max=4, desired=4).failure(1, 1).forming(2, cause=Cause.WORKER_FAILED)
    state = written(job)
    assert (state.phase, state.has_verdict, state.restarts) == (RoundPhase.FORMING, True, 1)


def test_a_membership_gets_one_verdict() -> None:
    job = stopped().spec(min=4, max=4, desired=4).failure(1, 1).lost(2).forming(2, has_verdict=True, restarts=1)
    assert waiting(job).until_s == 600.0
    state = written(job.spec(min=2, max=2, desired=2))
    assert (state.phase, state.restarts, state.node_losses) == (RoundPhase.ACTIVE, 1, 0)


def test_a_failure_beyond_max_restarts_ends_the_job_at_the_barrier_without_waiting_for_members() -> None:
    job = stopped(max_restarts=0).spec(min=4, max=4, desired=4).failure(1, 1).forming(2, cause=Cause.WORKER_FAILED)
    state = written(job)
    assert (state.phase, state.cause, state.root_cause) == (RoundPhase.FAILED, Cause.MAX_RESTARTS, "1/0001.0")


def test_no_verdict_before_the_barrier() -> None:
    job = stopped(max_restarts=0).failure(1, 1).node(2, ready=1).forming(2, cause=Cause.WORKER_FAILED)
    assert waiting(job).reason == "pod-2 not ready"


def test_too_few_nodes_within_the_join_time_out_fail_the_job_and_are_named() -> None:
    job = view_builder(3, 3, join_timeout_s=60.0).nodes(0).forming(1)
    state = written(job, 60.0)
    assert (state.phase, state.cause) == (RoundPhase.FAILED, Cause.JOIN_TIMEOUT)
    assert state.message == "fewer than 3 nodes within 60 s; missing: 2 more"


def test_with_an_operator_too_few_nodes_wait_for_ever() -> None:
    job = view_builder(2, 2).owned_by(s0="pod-0", s1="pod-1").nodes(0).forming(1)
    assert waiting(job, 1e6).until_s is None
