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
from elasticjob_operator.policy.slots.ownership import Owner, Standing

_NEVER_COUNTED = frozenset({
    ExitCode.LEFT, ExitCode.SUPERSEDED, ExitCode.JOB_DELETED,  # an agent that ended on purpose
    ExitCode.JOIN_TIMEOUT, ExitCode.UNAVAILABLE,  # too few nodes came, or etcd was away: no fault of the pod
})  # fmt: skip


class Fate(Enum):
    """What happens to a slot's pod."""

    KEEP = "keep"
    REPLACE = "replace"
    REPLACE_COUNTED = "replace, counted against backoffLimit"
    FAIL_JOB = "fail the job"


_COUNTED = frozenset({Fate.REPLACE_COUNTED, Fate.FAIL_JOB})


@dataclass(frozen=True, slots=True)
class Fates:
    """The fate of every slot."""

    by_slot: Mapping[int, Fate]

    @property
    def dropped(self) -> frozenset[int]:
        """Slots whose pod goes."""
        return frozenset(slot for slot, fate in self.by_slot.items() if fate is not Fate.KEEP)

    @property
    def counted(self) -> frozenset[int]:
        """Slots whose pod counts, alone or with others (`failure_batches`)."""
        return frozenset(slot for slot, fate in self.by_slot.items() if fate in _COUNTED)

    @property
    def failing(self) -> tuple[int, ...]:
        """Slots whose pod ends the job."""
        return tuple(slot for slot, fate in sorted(self.by_slot.items()) if fate is Fate.FAIL_JOB)


def fates(
    spec: JobSpec,
    owners: Mapping[int, Owner],
    *,
    kept: frozenset[int],
    lost: frozenset[str],
    later: frozenset[int] = frozenset(),
) -> Fates:
    """The fate of each slot; slots in `kept` (finished members) and pods that are fine stay, `lost` (uids) go.

    Those in `later` stay for the time being, unless they count.
    """
    judged = {slot: Fate.KEEP if slot in kept else _fate(spec, owner, lost) for slot, owner in owners.items()}
    return Fates({s: Fate.KEEP if fate is Fate.REPLACE and s in later else fate for s, fate in judged.items()})


def _fate(spec: JobSpec, owner: Owner, lost: frozenset[str]) -> Fate:
    if owner.standing in {Standing.GONE, Standing.NEVER_CREATED}:
        return Fate.REPLACE
    if owner.pod is None:
        return Fate.KEEP
    if owner.standing is Standing.TERMINATING:
        # `Failed` asks to wait until nothing of the old pod runs; then it is gone, and replaced.
        at_once = spec.pod_replacement_policy == "TerminatingOrFailed" or owner.pod.ended
        return Fate.REPLACE if at_once else Fate.KEEP
    if owner.standing in {Standing.FAILED, Standing.COMPLETED}:
        return _fate_of_ended(spec, owner.pod)
    return Fate.REPLACE if owner.pod.uid in lost else Fate.KEEP


def is_counted(spec: JobSpec, pod: Pod) -> bool:
    """The end of this pod counts against backoffLimit."""
    return _fate_of_ended(spec, pod) in _COUNTED


def _fate_of_ended(spec: JobSpec, pod: Pod) -> Fate:
    if (rule := matching_rule(spec, pod)) is not None:
        return _BY_ACTION[rule.action]
    if pod.disrupted or pod.refused or pod.exit_code in _NEVER_COUNTED:
        return Fate.REPLACE
    return Fate.REPLACE_COUNTED


_BY_ACTION = {
    FailureAction.FAIL_JOB: Fate.FAIL_JOB,
    FailureAction.IGNORE: Fate.REPLACE,
    FailureAction.REPLACE_POD: Fate.REPLACE_COUNTED,
    FailureAction.RESTART_WORKERS: Fate.REPLACE_COUNTED,
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
