"""The pods that are replaced, those that count against backoffLimit, and those that end the job."""

from typing import Any

import pytest

from elasticjob_api.exit_codes import ExitCode
from elasticjob_api.spec import FailureAction, FailurePolicy, JobSpec, OnExitCodes, OnPodCondition, Rule
from elasticjob_operator.model.slot_pod import PodState, SlotPod
from elasticjob_operator.policy.slots.replacement import PodDecision, PodDecisions, decide_pods, is_over_budget
from testing.builders import pod, spec

NONE: frozenset[Any] = frozenset()


def decision_for(state: PodState, of: JobSpec | None = None, **fields: Any) -> PodDecision:
    """Return the decision for the only slot of a job."""
    known = state not in {PodState.ABSENT, PodState.PENDING_CREATE, PodState.CREATED, PodState.UNKNOWN}
    owner = SlotPod("j-0-a", state, pod(0, **fields) if known else None)
    return decide_pods(of or spec(), {0: owner}, retained=NONE, lost=NONE).by_slot[0]


def failed(of: JobSpec | None = None, **fields: Any) -> PodDecision:
    return decision_for(PodState.FAILED, of, phase="Failed", **fields)


def ruled(*rules: Rule) -> JobSpec:
    return spec(failure_policy=FailurePolicy(rules))


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        (PodState.PENDING_CREATE, PodDecision.KEEP),
        (PodState.CREATED, PodDecision.KEEP),
        (PodState.UNKNOWN, PodDecision.KEEP),  # a pod that is missing from the cache may exist
        (PodState.LIVE, PodDecision.KEEP),
        (PodState.ABSENT, PodDecision.REPLACE),
        (PodState.TERMINATING, PodDecision.REPLACE),
        (PodState.FAILED, PodDecision.REPLACE_COUNTED),
        (PodState.COMPLETED, PodDecision.REPLACE_COUNTED),
    ],
)
def test_only_a_pod_that_ended_by_itself_counts_and_only_one_that_is_ending_is_replaced(
    state: PodState, expected: PodDecision
) -> None:
    assert decision_for(state) is expected


def test_with_policy_failed_a_terminating_pod_is_not_replaced_yet() -> None:
    assert decision_for(PodState.TERMINATING, spec(pod_replacement_policy="Failed")) is PodDecision.KEEP


def test_with_policy_failed_a_terminating_pod_that_has_ended_is_replaced() -> None:
    waiting = spec(pod_replacement_policy="Failed")
    assert decision_for(PodState.TERMINATING, waiting, phase="Failed") is PodDecision.REPLACE


@pytest.mark.parametrize("policy", ["TerminatingOrFailed", "Failed"])
def test_a_gone_pod_is_replaced_under_every_policy(policy: str) -> None:
    assert decision_for(PodState.ABSENT, spec(pod_replacement_policy=policy)) is PodDecision.REPLACE


@pytest.mark.parametrize("code", [ExitCode.LEFT, ExitCode.SUPERSEDED, ExitCode.JOB_DELETED])
def test_a_pod_whose_agent_left_was_superseded_or_had_its_job_deleted_never_counts(code: ExitCode) -> None:
    assert failed(exit_code=code) is PodDecision.REPLACE


@pytest.mark.parametrize("code", [ExitCode.JOIN_TIMEOUT, ExitCode.UNAVAILABLE])
def test_a_pod_that_ended_for_lack_of_nodes_or_of_etcd_never_counts(code: ExitCode) -> None:
    assert failed(exit_code=code) is PodDecision.REPLACE


def test_a_pod_that_a_kubelet_did_not_admit_never_counts() -> None:
    assert failed(reason="OutOfcpu", is_rejected=True) is PodDecision.REPLACE


@pytest.mark.parametrize("code", [1, 137, 139, ExitCode.PEER_FAILED, None])
def test_every_other_end_of_a_pod_counts(code: int | None) -> None:
    assert failed(exit_code=code) is PodDecision.REPLACE_COUNTED


def test_a_pod_that_the_cluster_evicted_does_not_count() -> None:
    assert failed(exit_code=137, is_disrupted=True) is PodDecision.REPLACE


def test_a_pod_whose_container_its_node_has_lost_does_not_count() -> None:
    assert failed(exit_code=255, reason="Unknown", is_lost=True) is PodDecision.REPLACE
    assert failed(exit_code=255, reason="Error") is PodDecision.REPLACE_COUNTED


def test_an_oom_kill_counts() -> None:
    assert failed(exit_code=137, reason="OOMKilled") is PodDecision.REPLACE_COUNTED


@pytest.mark.parametrize(
    ("action", "expected"),
    [
        (FailureAction.FAIL_JOB, PodDecision.FAIL_JOB),
        (FailureAction.IGNORE, PodDecision.REPLACE),
        (FailureAction.REPLACE_POD, PodDecision.REPLACE_COUNTED),
    ],
)
def test_a_rule_by_reason_decides(action: FailureAction, expected: PodDecision) -> None:
    rule = Rule(action, on_reasons=("OOMKilled",))
    assert failed(ruled(rule), exit_code=137, reason="OOMKilled") is expected


def test_a_rule_by_condition_decides() -> None:
    rule = Rule(FailureAction.FAIL_JOB, on_pod_conditions=(OnPodCondition("ConfigIssue"),))
    assert failed(ruled(rule), conditions={"ConfigIssue": "True"}) is PodDecision.FAIL_JOB


def test_a_condition_with_another_status_does_not_match() -> None:
    rule = Rule(FailureAction.FAIL_JOB, on_pod_conditions=(OnPodCondition("ConfigIssue"),))
    assert failed(ruled(rule), conditions={"ConfigIssue": "False"}) is PodDecision.REPLACE_COUNTED


def test_the_first_rule_that_matches_wins() -> None:
    ignore = Rule(FailureAction.IGNORE, on_reasons=("OOMKilled",))
    end = Rule(FailureAction.FAIL_JOB, on_reasons=("OOMKilled",))
    assert failed(ruled(ignore, end), reason="OOMKilled") is PodDecision.REPLACE
    assert failed(ruled(end, ignore), reason="OOMKilled") is PodDecision.FAIL_JOB


def test_a_rule_comes_before_the_default_for_disruptions() -> None:
    rule = Rule(FailureAction.REPLACE_POD, on_pod_conditions=(OnPodCondition("DisruptionTarget"),))
    counted = failed(ruled(rule), is_disrupted=True, conditions={"DisruptionTarget": "True"})
    assert counted is PodDecision.REPLACE_COUNTED


def test_a_rule_by_exit_code_is_about_workers_and_not_about_pods() -> None:
    rule = Rule(FailureAction.FAIL_JOB, on_exit_codes=OnExitCodes("In", (3,)))
    assert failed(ruled(rule), exit_code=3) is PodDecision.REPLACE_COUNTED


def test_a_rule_never_applies_to_a_live_pod() -> None:
    rule = Rule(FailureAction.FAIL_JOB, on_reasons=("ImagePullBackOff",))
    assert decision_for(PodState.LIVE, ruled(rule), phase="Pending", reason="ImagePullBackOff") is PodDecision.KEEP


def test_a_rule_never_applies_to_a_deleted_pod() -> None:
    rule = Rule(FailureAction.FAIL_JOB, on_reasons=("Error",))
    assert (
        decision_for(PodState.TERMINATING, ruled(rule), phase="Failed", terminating=True, reason="Error")
        is PodDecision.REPLACE
    )


@pytest.mark.parametrize("state", [PodState.COMPLETED, PodState.FAILED, PodState.ABSENT, PodState.TERMINATING])
def test_the_pod_of_a_finished_member_is_neither_lost_nor_replaced(state: PodState) -> None:
    owner = SlotPod("j-0-a", state, pod(0))
    found = decide_pods(spec(), {0: owner}, retained=frozenset({0}), lost=frozenset({"uid-j-0-a"}))
    assert found.by_slot == {0: PodDecision.KEEP}


def test_a_lost_pod_is_replaced_and_does_not_count() -> None:
    owners = {slot: SlotPod(f"j-{slot}-a", PodState.LIVE, pod(slot)) for slot in (0, 1)}
    found = decide_pods(spec(), owners, retained=NONE, lost=frozenset({"uid-j-1-a"}))
    assert (found.removed_slots, found.counted_slots, found.failing_slots) == (frozenset({1}), frozenset(), ())


def test_removed_counted_and_failing_slots_are_distinct() -> None:
    each = dict(enumerate([PodDecision.KEEP, PodDecision.REPLACE, PodDecision.REPLACE_COUNTED, PodDecision.FAIL_JOB]))
    found = PodDecisions(each)
    assert (found.removed_slots, found.counted_slots, found.failing_slots) == (
        frozenset({1, 2, 3}),
        frozenset({2, 3}),
        (3,),
    )


@pytest.mark.parametrize(("limit", "failures", "over"), [(0, 0, False), (0, 1, True), (2, 2, False), (2, 3, True)])
def test_backoff_limit_is_the_number_of_failures_that_do_not_end_the_job(
    limit: int, failures: int, *, over: bool
) -> None:
    assert is_over_budget(spec(backoff_limit=limit), failures) is over
