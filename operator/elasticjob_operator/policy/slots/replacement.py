"""PURE: whether a slot's pod is replaced, whether that counts against backoffLimit, and whether it ends the job.

A pod counts once, in the transaction that drops it from the map; so the count is the same after any crash.
What the cluster did (eviction, preemption, drain, deletion, a kubelet that did not admit it) never counts. Nor does
what an agent did on purpose (left, superseded, job deleted) or for want of nodes or etcd. Failure rules by pod
condition or reason come first; rules by exit code are the closer's. A finished member's pod is neither lost nor
replaced while its round stands: the caller leaves it out. A slot whose pods come and go for nothing waits for the next
one, if it is not counted: the caller says which (`churn`).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from elasticjob_api.exit_codes import ExitCode
from elasticjob_api.spec import FailureAction, JobSpec, Rule
from elasticjob_operator.model.pod import Pod
from elasticjob_operator.policy.slots.ownership import PodState, SlotPod

_NEVER_COUNTED = frozenset({
    ExitCode.LEFT, ExitCode.SUPERSEDED, ExitCode.JOB_DELETED,  # an agent that ended on purpose
    ExitCode.JOIN_TIMEOUT, ExitCode.UNAVAILABLE,  # too few nodes came, or etcd was away: no fault of the pod
})  # fmt: skip


class PodDecision(Enum):
    """What happens to a slot's pod."""

    KEEP = "keep"
    REPLACE = "replace"
    REPLACE_COUNTED = "replace, counted against backoffLimit"
    FAIL_JOB = "fail the job"


_COUNTED = frozenset({PodDecision.REPLACE_COUNTED, PodDecision.FAIL_JOB})


@dataclass(frozen=True, slots=True)
class PodDecisions:
    """The fate of every slot."""

    by_slot: Mapping[int, PodDecision]

    @property
    def removed_slots(self) -> frozenset[int]:
        """Slots whose pod goes."""
        return frozenset(slot for slot, decision in self.by_slot.items() if decision is not PodDecision.KEEP)

    @property
    def counted_slots(self) -> frozenset[int]:
        """Slots whose pod counts, alone or with others (`failure_batches`)."""
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
    """The fate of each slot; slots in `retained` (finished members) and pods that are fine stay, `lost` (uids) go.

    Those in `later` stay for the time being, unless they count.
    """
    judged = {
        slot: PodDecision.KEEP if slot in retained else _decide_pod(spec, owner, lost) for slot, owner in owners.items()
    }
    return PodDecisions(
        {
            s: PodDecision.KEEP if decision is PodDecision.REPLACE and s in later else decision
            for s, decision in judged.items()
        }
    )


def _decide_pod(spec: JobSpec, owner: SlotPod, lost: frozenset[str]) -> PodDecision:
    if owner.state in {PodState.ABSENT, PodState.NEVER_CREATED}:
        return PodDecision.REPLACE
    if owner.pod is None:
        return PodDecision.KEEP
    if owner.state is PodState.TERMINATING:
        # `Failed` asks to wait until nothing of the old pod runs; then it is gone, and replaced.
        at_once = spec.pod_replacement_policy == "TerminatingOrFailed" or owner.pod.ended
        return PodDecision.REPLACE if at_once else PodDecision.KEEP
    if owner.state in {PodState.FAILED, PodState.COMPLETED}:
        return _decide_ended_pod(spec, owner.pod)
    return PodDecision.REPLACE if owner.pod.uid in lost else PodDecision.KEEP


def is_counted(spec: JobSpec, pod: Pod) -> bool:
    """The end of this pod counts against backoffLimit."""
    return _decide_ended_pod(spec, pod) in _COUNTED


def _decide_ended_pod(spec: JobSpec, pod: Pod) -> PodDecision:
    if (rule := matching_rule(spec, pod)) is not None:
        return _BY_ACTION[rule.action]
    if pod.is_disrupted or pod.is_rejected or pod.exit_code in _NEVER_COUNTED:
        return PodDecision.REPLACE
    return PodDecision.REPLACE_COUNTED


_BY_ACTION = {
    FailureAction.FAIL_JOB: PodDecision.FAIL_JOB,
    FailureAction.IGNORE: PodDecision.REPLACE,
    FailureAction.REPLACE_POD: PodDecision.REPLACE_COUNTED,
    FailureAction.RESTART_WORKERS: PodDecision.REPLACE_COUNTED,
}


def matching_rule(spec: JobSpec, pod: Pod) -> Rule | None:
    """The first failure rule about this failed pod."""
    return next((rule for rule in spec.failure_policy.rules if _matches(rule, pod)), None)


def _matches(rule: Rule, pod: Pod) -> bool:
    """A rule by exit code alone is about workers, not about pods."""
    by_condition = any(pod.conditions.get(c.type) == c.status for c in rule.on_pod_conditions)
    return by_condition or pod.reason in rule.on_reasons


def is_over_budget(spec: JobSpec, replacements: int) -> bool:
    """More pods have failed than backoffLimit allows."""
    return replacements > spec.backoff_limit
