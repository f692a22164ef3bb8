"""The spec record `P/c/spec` of a job: the slot map, and the fields of the manifest that agents and the leader need.

The record is a function of the job, the slot map, and the counts that only the record stores. So it is rewritten
exactly when one of them has changed. A requested restart (an annotation of the job) is only copied: the leader
restarts.
"""

from collections.abc import Mapping
from dataclasses import replace

from elasticjob_api import constants
from elasticjob_api.job import ElasticJob
from elasticjob_api.records import FailureRule, SlotOwner, SpecRecord
from elasticjob_api.spec import JobSpec
from elasticjob_api.status import JobStatus

AFTER_WIPE_ROUNDS = 1000
"""The status may lag behind the actual rounds. After a wipe, rounds continue at a number that is larger by this."""


def spec_record(
    job: ElasticJob, before: SpecRecord, slots: Mapping[int, SlotOwner], *, suspended: bool, counted: int = 0
) -> SpecRecord:
    """Return the record for this slot map.

    `before` has the counts. `counted` failed pods are dropped with this write.
    """
    spec = job.spec
    return SpecRecord(
        min=spec.effective_min,
        max=spec.effective_max,
        desired=spec.desired_nodes,
        slots=dict(sorted(slots.items())),
        operator=before.operator,
        max_restarts=spec.max_restarts,
        failure_rules=_failure_rules(spec),
        success_policy=spec.success_policy,
        join_timeout_s=spec.rendezvous.join_timeout_s,
        last_call_timeout_s=spec.rendezvous.last_call_timeout_s,
        scale_up_delay_s=spec.scaling.scale_up_delay_s,
        keep_alive_s=spec.rendezvous.keep_alive_s,
        replica_step=spec.replica_step or 0,
        allowed_replicas=spec.allowed_replicas,
        progress_deadline_s=spec.progress_deadline_s or 0.0,
        restart_window_s=spec.restart_window_s,
        backoff_initial_s=spec.restart_backoff.initial_s,
        backoff_max_s=spec.restart_backoff.max_s,
        failure_grace_s=spec.failure_grace_s,
        isolation_grace_s=spec.isolation_grace_s,
        graceful_shutdown_s=spec.graceful_shutdown.seconds,
        stop_signal=spec.graceful_shutdown.signal,
        report_period_s=spec.agent.report_period_s,
        restart_id=job.metadata.annotations.get(constants.ANNOTATION_RESTART, ""),
        suspended=suspended,
        replacements=before.replacements + counted,
        first_round=before.first_round,
        first_restarts=before.first_restarts,
        keep_copies=spec.keep.copies if spec.keep is not None else None,
    )


def first_record(job: ElasticJob, status: JobStatus, operator_id: str) -> SpecRecord:
    """Return the predecessor of the first record: empty, or with the counts in the status if etcd was wiped."""
    known = status.rendezvous_round
    return SpecRecord(
        min=job.spec.effective_min,
        max=job.spec.effective_max,
        desired=job.spec.desired_nodes,
        operator=operator_id,
        replacements=status.pod_replacements,
        first_round=known + AFTER_WIPE_ROUNDS if known else 1,
        first_restarts=status.restarts,
    )


def without_slots(record: SpecRecord) -> SpecRecord:
    """Return the record of a job that is being deleted: without slots, and with how its workers are stopped."""
    return replace(record, slots={})


def _failure_rules(spec: JobSpec) -> tuple[FailureRule, ...]:
    return tuple(
        FailureRule(rule.action.value, rule.on_exit_codes.values, rule.on_exit_codes.operator == "NotIn")
        for rule in spec.failure_policy.rules
        if rule.on_exit_codes is not None
    )
