"""PURE: what the last round's end counts as, decided once per membership, when everybody has stopped.

An agent writes its failure records before it is ready, so the barrier is the settle window: here every
failure of the round is known. A failure is charged only if no member left or was lost, so that the victims of
a lost node are never charged, nor named as the root cause; losses and leaves are never charged.
"""

from dataclasses import dataclass

from elasticjob_agent.rendezvous.view import FailureAt, View
from elasticjob_api import exit_codes
from elasticjob_api.records import FailureRule, GoneReason, Slots
from elasticjob_api.world import Cause, Member

_FAIL_JOB = "FailJob"
_IGNORE = "Ignore"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is added to the counters, why, and whether the job ends with it."""

    restarts: int = 0
    losses: int = 0
    root: FailureAt | None = None
    failed: Cause | None = None
    detail: str = ""


def judge(view: View, spec: Slots, restarts: int) -> Verdict:
    """The verdict on the members of the last active round, `restarts` having been charged before."""
    if view.membership is None:
        return Verdict()
    lost = [m for m in view.membership.members if is_lost(view, m)]
    if lost or any(has_left(view, m) for m in view.membership.members):
        return Verdict(losses=1 if lost else 0)  # rounds are counted, as for restarts, not nodes
    failures = view.failures_of(view.membership.round)
    root = root_cause(failures)
    charged = [f for f in failures if not f.failure.late and not f.failure.killed_by_us]
    if not charged or root is None:
        return Verdict(root=root)
    return _charge(spec, root, restarts)


def _charge(spec: Slots, root: FailureAt, restarts: int) -> Verdict:
    said = describe(root)
    action = _rule(spec.failure_rules, exit_codes.from_worker(root.failure.exit_code))
    if action == _FAIL_JOB:
        return Verdict(root=root, failed=Cause.FAIL_JOB_RULE, detail=f"{said}; a failurePolicy rule ends the job")
    if action == _IGNORE:
        return Verdict(root=root)
    if restarts + 1 > spec.max_restarts:
        detail = f"{said}; maxRestarts {spec.max_restarts} is used up"
        return Verdict(root=root, failed=Cause.MAX_RESTARTS, detail=detail)
    return Verdict(1, root=root)


def _rule(rules: tuple[FailureRule, ...], exit_code: int) -> str:
    for rule in rules:
        if not rule.values or (exit_code in rule.values) != rule.negate:
            return rule.action
    return ""


def root_cause(failures: list[FailureAt]) -> FailureAt | None:
    """The first failure by itself in etcd's order; a death by signal or OOM beats a peer's lost connection."""
    own = [f for f in failures if not f.failure.killed_by_us]
    return min(own, key=lambda f: (not (f.failure.exit_code < 0 or f.failure.oom), f.revision), default=None)


def describe(failure: FailureAt) -> str:
    """The failure in words: who, where, how."""
    record = failure.failure
    where = f" on {record.pod}" if record.pod else ""
    how = f"was killed by {record.signal}" if record.signal else f"exited with code {record.exit_code}"
    oom = " (out of memory)" if record.oom else ""
    said = record.message.strip().splitlines()
    return f"rank {record.rank}{where} {how}{oom}" + (f": {said[-1][:200]}" if said else "")


def is_done(view: View, member: Member) -> bool:
    """All its workers exited 0 in the last active round."""
    return view.membership is not None and (view.membership.round, member) in view.done


def has_left(view: View, member: Member) -> bool:
    """It said goodbye: by its `gone` record, or it is about to."""
    if is_done(view, member):
        return False
    gone, node = view.gone.get(member), view.nodes.get(member)
    return (gone is not None and gone.reason is GoneReason.LEFT) or (node is not None and node.record.leaving)


def is_lost(view: View, member: Member) -> bool:
    """It is gone without goodbye; a finished member that is gone is not lost."""
    if is_done(view, member) or has_left(view, member):
        return False
    return member not in view.nodes or member in view.gone
