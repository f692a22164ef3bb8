"""`P/c/spec` of a job: the manifest's fields for agents, and the counts that only the record stores."""

from dataclasses import replace

from elasticjob_api.records import FailureRule, SlotOwner
from elasticjob_api.spec import (
    Agent,
    FailureAction,
    FailurePolicy,
    GracefulShutdown,
    Keep,
    OnExitCodes,
    Rendezvous,
    RestartBackoff,
    Rule,
    Scaling,
)
from elasticjob_api.status import JobStatus
from elasticjob_operator.policy.lifecycle.spec_record import first_record, spec_record, without_slots
from testing.builders import job, names, record

BEFORE = record(operator="op", replacements=2, first_round=1001, first_restarts=3)


def test_sizes_and_slots_are_those_of_the_job_and_the_slot_map() -> None:
    made = spec_record(job(replicas=3, min_replicas=2, max_replicas=8), BEFORE, names([1, 0]), suspended=False)
    assert (made.min, made.max, made.desired, made.suspended) == (2, 8, 3, False)
    assert made.slots == {0: SlotOwner("j-0-a"), 1: SlotOwner("j-1-a")}


def test_the_record_has_the_allowed_sizes_for_a_leader_with_missing_nodes() -> None:
    assert spec_record(job(replica_step=2), BEFORE, {}, suspended=False).replica_step == 2
    assert spec_record(job(allowed_replicas=(1, 4)), BEFORE, {}, suspended=False).allowed_replicas == (1, 4)
    assert spec_record(job(), BEFORE, {}, suspended=False).replica_step == 0


def test_the_record_has_the_copies_of_kept_steps_only_if_the_job_keeps_any() -> None:
    def copies(keep: Keep | None) -> int | None:
        return spec_record(job(keep=keep), BEFORE, {}, suspended=False).keep_copies

    assert [copies(None), copies(Keep(size_limit="1Gi")), copies(Keep(size_limit="1Gi", copies=0))] == [None, 1, 0]


def test_a_slot_is_a_number_in_the_record() -> None:
    assert set(spec_record(job(), BEFORE, names([26]), suspended=False).slots) == {26}


def test_the_record_has_the_times_and_signals_of_the_manifest() -> None:
    of = job(
        max_restarts=9,
        success_policy="AnyWorker",
        failure_grace_s=1.0,
        rendezvous=Rendezvous(join_timeout_s=11.0, last_call_timeout_s=12.0, keep_alive_s=4.0),
        restart_window_s=16.0,
        restart_backoff=RestartBackoff(17.0, 18.0),
        scaling=Scaling(scale_up_delay_s=13.0),
        graceful_shutdown=GracefulShutdown("SIGUSR1", 14.0),
        agent=Agent(report_period_s=15.0),
        isolation_grace_s=19.0,
    )
    made = spec_record(of, BEFORE, {}, suspended=False)
    assert (made.max_restarts, made.success_policy, made.failure_grace_s) == (9, "AnyWorker", 1.0)
    assert (made.join_timeout_s, made.last_call_timeout_s, made.scale_up_delay_s) == (11.0, 12.0, 13.0)
    assert (made.keep_alive_s, made.restart_window_s, made.isolation_grace_s) == (4.0, 16.0, 19.0)
    assert (made.backoff_initial_s, made.backoff_max_s) == (17.0, 18.0)
    assert (made.stop_signal, made.graceful_shutdown_s, made.report_period_s) == ("SIGUSR1", 14.0, 15.0)


def test_the_record_has_rules_by_exit_code_and_no_rules_by_pod() -> None:
    rules = (
        Rule(FailureAction.IGNORE, on_reasons=("Evicted",)),
        Rule(FailureAction.FAIL_JOB, on_exit_codes=OnExitCodes("In", (3, 4))),
        Rule(FailureAction.RESTART_WORKERS, on_exit_codes=OnExitCodes("NotIn", (5,))),
    )
    made = spec_record(job(failure_policy=FailurePolicy(rules)), BEFORE, {}, suspended=False)
    assert made.failure_rules == (
        FailureRule("FailJob", (3, 4), negate=False),
        FailureRule("RestartWorkers", (5,), negate=True),
    )


def test_a_requested_restart_is_copied_from_the_annotation() -> None:
    requested = job(annotations={"elasticjob.io/restart": "r7"})
    assert spec_record(requested, BEFORE, {}, suspended=False).restart_id == "r7"


def test_counts_that_only_the_record_stores_are_kept() -> None:
    made = spec_record(job(), BEFORE, {}, suspended=True, counted=1)
    assert (made.operator, made.replacements, made.first_round, made.first_restarts) == ("op", 3, 1001, 3)


def test_the_same_job_map_and_counts_give_the_same_record() -> None:
    once = spec_record(job(), BEFORE, names([0]), suspended=False)
    assert spec_record(job(), once, names([0]), suspended=False) == once


def test_the_rounds_of_a_new_job_begin_at_1() -> None:
    made = first_record(job(), JobStatus(), "op")
    assert (made.first_round, made.first_restarts, made.replacements, made.operator) == (1, 0, 0, "op")


def test_after_a_wipe_the_counts_come_from_the_status() -> None:
    made = first_record(job(), JobStatus(rendezvous_round=7, restarts=2, pod_replacements=4), "op")
    assert (made.first_round, made.first_restarts, made.replacements) == (1007, 2, 4)


def test_the_record_of_a_deleted_job_has_no_slots_and_keeps_all_else() -> None:
    before = replace(BEFORE, slots=record(0, 1).slots, graceful_shutdown_s=600.0, stop_signal="SIGUSR1")
    assert without_slots(before) == replace(before, slots={})
