"""Whether a slot's pod is replaced, whether that counts against backoffLimit, and whether it ends the job.

A pod is counted once, in the transaction that drops it from the slot map. So the count is the same after any crash.
These ends never count:

- The cluster ended the pod (eviction, preemption, drain, deletion), or a kubelet did not admit it.
- The node no longer knows how the pod's container ended, as after a reboot.
- The agent exited on purpose (left, superseded, job deleted), or because nodes or etcd were missing.

Failure rules by pod condition or reason come first. The leader applies rules by exit code. The pod of a member that has
finished is neither lost nor replaced while its round lasts; the caller passes such slots in. A slot whose pods end soon
and uncounted again and again waits for its next pod; the caller passes such slots in too (`replacement_backoff`).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from elasticjob_api.exit_codes import ExitCode
from elasticjob_api.spec import FailureAction, JobSpec, Rule
from elasticjob_operator.model.pod import Pod
from elasticjob_operator.model.slot_pod import PodState, SlotPod

_NEVER_COUNTED = frozenset({
    ExitCode.LEFT, ExitCode.SUPERSEDED, ExitCode.JOB_DELETED,  # the agent exited on purpose
    ExitCode.JOIN_TIMEOUT, ExitCode.UNAVAILABLE,  # too few nodes joined, or etcd was unavailable: not the pod's fault
})  # fmt: skip


class PodDecision(Enum):
    """The decision about a slot's pod."""

    KEEP = "keep"
    REPLACE = "replace"
    REPLACE_COUNTED = "replace, counted against backoffLimit"
    FAIL_JOB = "fail the job"


_COUNTED = frozenset({PodDecision.REPLACE_COUNTED, PodDecision.FAIL_JOB})


@dataclass(frozen=True, slots=True)
class PodDecisions:
    """The decision for every slot."""

    by_slot: Mapping[int, PodDecision]

    @property
    def removed_slots(self) -> frozenset[int]:
        """Slots whose pod is removed from the slot map."""
        return frozenset(slot for slot, decision in self.by_slot.items() if decision is not PodDecision.KEEP)

    @property
    def counted_slots(self) -> frozenset[int]:
        """Slots whose pod counts, alone or together with others (`failure_batches`)."""
        return frozenset(slot for slot, decision in self.by_slot.items() if decision in _COUNTED)

    @property
    def failing_slots(self) -> tuple[int, ...]:
        """Slots whose pod ends the job."""
        return tuple(slot for slot, decision in sorted(self.by_slot.items()) if decision is PodDecision.FAIL_JOB)


def decide_pods(
    spec: JobSpec,
    owners: Mapping[int, SlotPod],
    *,
    retained: frozenset[int],
    lost: frozenset[str],
    later: frozenset[int] = frozenset(),
) -> PodDecisions:
    """Return the decision for each slot.

    Args:
        spec: the job's spec.
        owners: the pod of each slot.
        retained: slots of finished members, whose pods are kept.
        lost: uids of lost pods, which are replaced.
        later: slots that keep their pod for now, unless it counts.
    """
    decisions = {
        slot: PodDecision.KEEP if slot in retained else _decide_pod(spec, owner, lost) for slot, owner in owners.items()
    }
    return PodDecisions(
        {
            s: PodDecision.KEEP if decision is PodDecision.REPLACE and s in later else decision
            for s, decision in decisions.items()
        }
    )


def _decide_pod(spec: JobSpec, owner: SlotPod, lost: frozenset[str]) -> PodDecision:
    if owner.state in {PodState.ABSENT, PodState.NEVER_CREATED}:
        return PodDecision.REPLACE
    if owner.pod is None:
        return PodDecision.KEEP
    if owner.state is PodState.TERMINATING:
        # With policy `Failed` a new pod waits until all containers of the old one have ended.
        at_once = spec.pod_replacement_policy == "TerminatingOrFailed" or owner.pod.ended
        return PodDecision.REPLACE if at_once else PodDecision.KEEP
    if owner.state in {PodState.FAILED, PodState.COMPLETED}:
        return _decide_ended_pod(spec, owner.pod)
    return PodDecision.REPLACE if owner.pod.uid in lost else PodDecision.KEEP


def is_counted(spec: JobSpec, pod: Pod) -> bool:
    """Return whether the end of this pod counts against backoffLimit."""
    return _decide_ended_pod(spec, pod) in _COUNTED


def _decide_ended_pod(spec: JobSpec, pod: Pod) -> PodDecision:
    if (rule := matching_rule(spec, pod)) is not None:
        return _BY_ACTION[rule.action]
    if pod.is_disrupted or pod.is_rejected or pod.is_lost or pod.exit_code in _NEVER_COUNTED:
        return PodDecision.REPLACE
    return PodDecision.REPLACE_COUNTED


_BY_ACTION = {
    FailureAction.FAIL_JOB: PodDecision.FAIL_JOB,
    FailureAction.IGNORE: PodDecision.REPLACE,
    FailureAction.REPLACE_POD: PodDecision.REPLACE_COUNTED,
    FailureAction.RESTART_WORKERS: PodDecision.REPLACE_COUNTED,
}


def matching_rule(spec: JobSpec, pod: Pod) -> Rule | None:
    """Return the first failure rule that matches this failed pod."""
    return next((rule for rule in spec.failure_policy.rules if _matches(rule, pod)), None)


def _matches(rule: Rule, pod: Pod) -> bool:
    """Return whether a rule matches a pod; a rule by exit code alone is about workers."""
    by_condition = any(pod.conditions.get(c.type) == c.status for c in rule.on_pod_conditions)
    return by_condition or pod.reason in rule.on_reasons


def is_over_budget(spec: JobSpec, replacements: int) -> bool:
    """Return whether more pods have failed than backoffLimit allows."""
    return replacements > spec.backoff_limit
