"""The verdict on the end of a round."""

from typing import Any

import pytest

from elasticjob_agent.rendezvous.protocol import verdict
from elasticjob_agent.rendezvous.protocol.restart_budget import RestartCounts
from elasticjob_agent.rendezvous.protocol.verdict import Verdict
from elasticjob_api.holdings import HoldingsRecord
from elasticjob_api.kept_steps import KeptStep, Lineage
from elasticjob_api.records import FailureRule, TombstoneReason
from elasticjob_api.rendezvous_state import Cause
from tests.unit.rendezvous.views import ViewBuilder, view_builder


def a_round(**spec: Any) -> ViewBuilder:
    """Return a job whose round 1 had slots 0, 1, 2; all have stopped and are ready for round 2."""
    return view_builder(**spec).nodes(0, 1, 2, ready=2).members(1, 0, 1, 2).forming(2)


def judge(job: ViewBuilder, restarts: int = 0) -> Verdict:
    view = job.build()
    assert view.spec is not None
    return verdict.decide_verdict(view, view.spec, RestartCounts(restarts=restarts))


@pytest.mark.parametrize(
    ("job", "restarts", "losses"),
    [
        pytest.param(a_round().failure(1, 0), 1, 0, id="a failure with all members there is charged"),
        pytest.param(a_round().failure(1, 0).failure(1, 1).failure(1, 2), 1, 0, id="several failures are one restart"),
        pytest.param(a_round(), 0, 0, id="a planned round charges nothing"),
        pytest.param(a_round().failure(1, 0).lost(1), 0, 1, id="a failure because of a lost node is not charged"),
        pytest.param(a_round().lost(1), 0, 1, id="a lost node counts as a loss"),
        pytest.param(a_round().lost(1).lost(2), 0, 1, id="losses are counted by rounds"),
        pytest.param(a_round().lost(1).tombstone(1, TombstoneReason.LEFT), 0, 0, id="a node that left does not count"),
        pytest.param(
            a_round().lost(1).tombstone(1, TombstoneReason.LEFT).failure(1, 0),
            0,
            0,
            id="a peer of a leaving node is not charged",
        ),
        pytest.param(a_round().node(1, ready=2, leaving=True).failure(1, 0), 0, 0, id="nor while it is leaving"),
        pytest.param(
            a_round().lost(1).tombstone(1, TombstoneReason.LEFT).lost(2), 0, 1, id="a loss beside a leave is a loss"
        ),
        pytest.param(
            a_round().tombstone(1, TombstoneReason.REFUSED).failure(1, 0), 0, 1, id="a tombstone counts as a loss"
        ),
        pytest.param(a_round().failure(1, 0, late=True), 0, 0, id="a late failure is never charged"),
        pytest.param(
            a_round().failure(1, 0, stopped_by_agent=True), 0, 0, id="a failure that the agent caused is never charged"
        ),
        pytest.param(
            a_round().completion(1, 1).lost(1).failure(1, 0), 1, 0, id="a finished member that is gone is not lost"
        ),
        pytest.param(
            a_round().completion(1, 1).node(1, leaving=True).failure(1, 0),
            1,
            0,
            id="a finished member that leaves does not count",
        ),
        pytest.param(a_round().failure(7, 0), 0, 0, id="failures of other rounds do not count"),
        pytest.param(
            a_round().lost(1).node(1, incarnation="f" * 8), 0, 1, id="a new session in the same slot is a loss"
        ),
    ],
)
def test_the_end_of_a_round_counts_as(job: ViewBuilder, restarts: int, losses: int) -> None:
    result = judge(job)
    assert (result.restarts, result.node_losses, result.failed) == (restarts, losses, None)


@pytest.mark.parametrize(
    "job", [a_round().lost(1), a_round().lost(1).tombstone(1, TombstoneReason.LEFT)], ids=["lost", "left"]
)
def test_a_peer_that_fails_because_of_a_lost_node_is_not_the_root_cause(job: ViewBuilder) -> None:
    result = judge(job.failure(1, 0, exit_code=1).failure(1, 2, exit_code=-6, signal="SIGABRT"))
    assert result.root_cause is None


def test_no_verdict_before_the_first_round() -> None:
    assert judge(view_builder().nodes(0, 1).forming(1)) == Verdict()


def test_one_failure_more_than_max_restarts_fails_the_job_with_a_message() -> None:
    job = a_round(max_restarts=2).failure(1, 1, exit_code=-9, signal="SIGKILL")
    assert judge(job, restarts=1).failed is None
    result = judge(job, restarts=2)
    assert (result.failed, result.restarts) == (Cause.MAX_RESTARTS, 0)
    assert result.message == "rank 1 on pod-1 was killed by SIGKILL; maxRestarts 2 is used up"


@pytest.mark.parametrize(
    ("rule", "failed", "restarts"),
    [
        pytest.param(FailureRule("FailJob", (1, 42)), Cause.FAIL_JOB_RULE, 0, id="FailJob on this code"),
        pytest.param(FailureRule("FailJob", (42,)), None, 1, id="FailJob on another code"),
        pytest.param(FailureRule("FailJob", (42,), negate=True), Cause.FAIL_JOB_RULE, 0, id="FailJob on all but one"),
        pytest.param(FailureRule("FailJob", (1,), negate=True), None, 1, id="FailJob on all but this"),
        pytest.param(FailureRule("Ignore", (1,)), None, 0, id="Ignore charges nothing"),
        pytest.param(FailureRule("RestartWorkers", (1,)), None, 1, id="RestartWorkers charges"),
        pytest.param(FailureRule("Ignore"), None, 0, id="a rule without codes matches every one"),
    ],
)
def test_failure_rule_by_exit_code(rule: FailureRule, failed: Cause | None, restarts: int) -> None:
    result = judge(a_round(failure_rules=(rule,)).failure(1, 0))
    assert (result.failed, result.restarts) == (failed, restarts)


def test_the_first_matching_rule_wins() -> None:
    rules = (FailureRule("Ignore", (1,)), FailureRule("FailJob"))
    assert judge(a_round(failure_rules=rules).failure(1, 0)).failed is None
    assert judge(a_round(failure_rules=rules).failure(1, 0, exit_code=2)).failed is Cause.FAIL_JOB_RULE


def test_a_signal_is_matched_as_128_plus_its_number() -> None:
    rules = (FailureRule("FailJob", (128 + 11,)),)
    assert judge(a_round(failure_rules=rules).failure(1, 0, exit_code=-11)).failed is Cause.FAIL_JOB_RULE


@pytest.mark.parametrize(
    ("late", "root"),
    [
        pytest.param({"message": "lost the connection to rank 0"}, None, id="it lost its peers"),
        pytest.param({"message": "No space left on device"}, "1/0001.0", id="its own fault"),
        pytest.param({"exit_code": -11}, "1/0001.0", id="a crash"),
    ],
)
def test_a_failure_while_the_round_ends_for_another_reason(late: Any, root: str | None) -> None:
    result = judge(a_round().failure(1, 1, late=True, **late))
    assert (str(result.root_cause.key) if result.root_cause else None) == root


def test_a_failure_record_that_is_written_again_keeps_its_place_in_the_order() -> None:
    job = a_round().failure(1, 1).failure(1, 0).failure(1, 1, late=True)
    root = judge(job).root_cause
    assert root is not None
    assert str(root.key) == "1/0001.0"


def port_taken(retries: int = 0) -> Verdict:
    job = a_round(max_restarts=0).failure(1, 0, port_taken=True, message="OSError: [Errno 98] Address already in use")
    view = job.failure(1, 1, message="ConnectionRefusedError").build()
    assert view.spec is not None
    return verdict.decide_verdict(view, view.spec, RestartCounts(port_retries=retries))


def test_a_taken_master_port_is_not_charged_and_the_message_says_it() -> None:
    result = port_taken()
    assert (result.restarts, result.failed, result.port_retries) == (0, None, 1)
    assert result.message.endswith("Address already in use; not charged: the next attempt takes another port")


def test_a_port_that_is_taken_too_often_is_charged_like_any_failure() -> None:
    assert port_taken(verdict.PORT_RETRIES - 1).failed is None
    assert port_taken(verdict.PORT_RETRIES).failed is Cause.MAX_RESTARTS


def test_a_round_that_ends_otherwise_resets_the_count_of_taken_ports() -> None:
    view = a_round().failure(1, 0).build()
    assert view.spec is not None
    assert verdict.decide_verdict(view, view.spec, RestartCounts(port_retries=3)).port_retries == 0


def test_a_crash_after_a_signal_of_the_agent_is_never_charged() -> None:
    assert judge(a_round().failure(1, 0, exit_code=-11, stopped_by_agent=True)).restarts == 0


def windowed(charges: str, seen_s: float, *, window_s: float = 60) -> Verdict:
    view = a_round(max_restarts=1, restart_window_s=window_s).failure(1, 0).build()
    assert view.spec is not None
    return verdict.decide_verdict(
        view, view.spec, RestartCounts(round=2, restarts=9, charged_failures=charges, charged_ages_s=seen_s)
    )


def test_a_second_failure_within_the_window_uses_up_the_restarts() -> None:
    result = windowed("1:0.0", 59)
    assert result.failed is Cause.MAX_RESTARTS
    assert result.message == "rank 0 on pod-0 exited with code 1; maxRestarts 1 is used up within 60 s"


def test_a_failure_after_the_window_counts_as_the_first() -> None:
    result = windowed("1:0.0", 60)
    assert (result.failed, result.restarts, result.charged_failures) == (None, 1, "2:0.0")


@pytest.mark.parametrize("job", [a_round().lost(1), a_round(), a_round().failure(1, 0, late=True)])
def test_a_failure_without_a_charge_does_not_change_the_charges(job: ViewBuilder) -> None:
    view = job.spec(restart_window_s=60).build()
    assert view.spec is not None
    assert verdict.decide_verdict(view, view.spec, RestartCounts(charged_failures="1:0.0")).charged_failures == "1:0.0"


ROUND = Lineage(1, "nonce1")
RESTORED = "1.nonce1.*,0.nonce0.100"


def row_after(job: ViewBuilder) -> int:
    """Return the failures in a row after a third one whose worker has shown no sign of work."""
    view = job.failure(1, 0, startup=True).build()
    assert view.spec is not None
    return verdict.decide_verdict(view, view.spec, RestartCounts(startup_failures=2)).startup_failures


def keeping(history: str, step: KeptStep | None, *, slot: int = 2) -> ViewBuilder:
    """Return a job whose round 1 has ended; one node holds a part of this step."""
    job = view_builder(keep_copies=1).nodes(0, 1, 2, ready=2).members(1, 0, 1, 2).forming(2, history=history)
    return job if step is None else job.holdings(slot, HoldingsRecord(port=7, steps={step: frozenset({0})}))


@pytest.mark.parametrize(
    ("history", "step", "row"),
    [
        pytest.param("1.nonce1.*", None, 3, id="no step"),
        pytest.param("1.nonce1.*", KeptStep(ROUND, 1, 3), 0, id="a step of the round"),
        pytest.param(RESTORED, KeptStep(ROUND, 101, 3), 0, id="a step after the restored one"),
        pytest.param(RESTORED, KeptStep(ROUND, 100, 3), 3, id="the number of the restored step once more"),
        pytest.param(RESTORED, KeptStep(Lineage(0, "nonce0"), 100, 3), 3, id="the restored step itself"),
        pytest.param("1.nonce1.*", KeptStep(Lineage(1, "other"), 1, 3), 3, id="a step of another lineage"),
        pytest.param("", KeptStep(ROUND, 1, 3), 3, id="a job that keeps no steps"),
        pytest.param("unreadable", KeptStep(ROUND, 1, 3), 3, id="a history that cannot be read"),
    ],
)
def test_a_step_that_the_round_has_published_ends_a_row_of_failures(
    history: str, step: KeptStep | None, row: int
) -> None:
    assert row_after(keeping(history, step)) == row


def test_a_step_in_the_volume_of_an_older_session_does_not_end_the_row() -> None:
    job = keeping("1.nonce1.*", KeptStep(ROUND, 1, 3), slot=3)
    assert row_after(job) == 3
