"""The verdict on the last round, decided once per membership, when all its workers have stopped.

An agent writes its failure records before it is ready. So at the barrier every failure of the round is known. A failure
is charged only if no member left or was lost. So workers that failed because of a lost node are never charged, nor
named as the root cause. Losses and leaves are never charged.
"""

from dataclasses import dataclass

from elasticjob_agent.rendezvous.protocol import restart_backoff, restart_budget
from elasticjob_agent.rendezvous.protocol.keep.progress import has_new_step
from elasticjob_agent.rendezvous.protocol.restart_budget import RestartCounts
from elasticjob_agent.rendezvous.protocol.root_cause import is_collateral, root_cause
from elasticjob_api import exit_codes
from elasticjob_api.failure_text import describe_failure
from elasticjob_api.records import FailureRule, SpecRecord
from elasticjob_api.rendezvous_state import Cause
from elasticjob_api.rendezvous_view import FailureEntry, RendezvousView

PORT_RETRIES = 5
"""Rounds in a row that a taken MASTER_PORT may end without a charge."""

_FAIL_JOB = "FailJob"
_IGNORE = "Ignore"


@dataclass(frozen=True, slots=True)
class Verdict:
    """Additions to the counters, the reason for them, and whether the job ends."""

    restarts: int = 0
    node_losses: int = 0
    root_cause: FailureEntry | None = None
    failed: Cause | None = None
    message: str = ""
    """The root cause and its consequence, as text."""
    startup_failures: int = 0
    """Failures in a row before any progress, including this one."""
    port_retries: int = 0
    """Rounds in a row that a taken MASTER_PORT has ended, including this one."""
    charged_failures: str = ""
    """The failures that count within the restart window, in the form of the state's field."""


def decide_verdict(view: RendezvousView, spec: SpecRecord, counts: RestartCounts) -> Verdict:
    """Return the verdict on the members of the last active round; `counts` are the counters before it."""
    if view.membership is None:
        return Verdict(charged_failures=counts.charged_failures)
    members, round_ = view.membership.members, view.membership.round
    lost = any(view.is_lost(round_, m) for m in members)
    if lost or any(view.has_left(round_, m) for m in members):
        # Rounds are counted, as for restarts, not nodes.
        return Verdict(node_losses=1 if lost else 0, charged_failures=counts.charged_failures)
    failures = view.failures_of(view.membership.round)
    root = root_cause(failures)
    charged = [f for f in failures if not f.failure.late and not f.failure.stopped_by_agent]
    if not charged or root is None:
        # The round ended for another reason. A worker that failed because its peers stopped is not the root cause.
        shown = root if root and not is_collateral(root.failure) else None
        return Verdict(
            root_cause=shown,
            charged_failures=counts.charged_failures,
            message=describe_failure(shown.failure) if shown else "",
        )
    if root.failure.port_taken and counts.port_retries < PORT_RETRIES:
        detail = f"{describe_failure(root.failure)}; not charged: the next attempt takes another port"
        return Verdict(
            root_cause=root,
            charged_failures=counts.charged_failures,
            message=detail,
            port_retries=counts.port_retries + 1,
        )
    return _charge(spec, root, counts, startup_failures=_startup_failures(view, failures, counts))


def _startup_failures(view: RendezvousView, failures: list[FailureEntry], counts: RestartCounts) -> int:
    """Return the failures in a row; progress of one node ends the row, whatever the root cause is.

    Progress is what a worker reported, or a kept step that the round has published.
    """
    in_a_row = all(f.failure.startup for f in failures if not f.failure.stopped_by_agent) and not has_new_step(view)
    return counts.startup_failures + 1 if in_a_row else 0


def _charge(spec: SpecRecord, root: FailureEntry, counts: RestartCounts, *, startup_failures: int) -> Verdict:
    cause = describe_failure(root.failure)
    action = _rule(spec.failure_rules, exit_codes.exit_code_of(root.failure.exit_code))
    if action == _FAIL_JOB:
        return Verdict(
            root_cause=root, failed=Cause.FAIL_JOB_RULE, message=f"{cause}; a failurePolicy rule ends the job"
        )
    text_with_delay = cause + restart_backoff.describe_delay(spec, startup_failures)
    ports = counts.port_retries if root.failure.port_taken else 0
    if action == _IGNORE:
        return Verdict(
            root_cause=root,
            message=text_with_delay,
            startup_failures=startup_failures,
            port_retries=ports,
            charged_failures=counts.charged_failures,
        )
    if restart_budget.used_restarts(spec, counts) + 1 > spec.max_restarts:
        return Verdict(
            root_cause=root,
            failed=Cause.MAX_RESTARTS,
            message=cause + _describe_exhaustion(spec, startup_failures),
            startup_failures=startup_failures,
        )
    charges = restart_budget.with_charged_failure(spec, counts)
    return Verdict(
        1,
        root_cause=root,
        message=text_with_delay,
        startup_failures=startup_failures,
        port_retries=ports,
        charged_failures=charges,
    )


def _describe_exhaustion(spec: SpecRecord, startup_failures: int) -> str:
    window = f" within {spec.restart_window_s:g} s" if spec.restart_window_s else ""
    row = f": {startup_failures} failures in a row before any progress" if startup_failures > 1 else ""
    return f"; maxRestarts {spec.max_restarts} is used up{window}{row}"


def _rule(rules: tuple[FailureRule, ...], exit_code: int) -> str:
    for rule in rules:
        if not rule.values or (exit_code in rule.values) != rule.negate:
            return rule.action
    return ""
