"""PURE: what the last round's end counts as, decided once per membership, when everybody has stopped.

An agent writes its failure records before it is ready, so the barrier is the settle window: here every
failure of the round is known. A failure is charged only if no member left or was lost. So the victims of a lost node
are never charged, nor named as the root cause. Losses and leaves are never charged.

The root cause is the earliest in etcd's order, of the lowest class present. Class 1: killed by a signal or out of
memory, or MASTER_PORT taken. Class 2: ended with a message of its own. Class 3: crashed, or reported an error, after we
had signalled it. Class 4: reports a connection that a peer has closed, as all victims do.
"""

from dataclasses import dataclass

from elasticjob_agent.rendezvous.protocol import restart_backoff, restart_budget
from elasticjob_agent.rendezvous.protocol.collateral_failures import blames_peer
from elasticjob_agent.rendezvous.protocol.restart_budget import RestartCounts
from elasticjob_agent.rendezvous.protocol.view import FailureEntry, RendezvousView
from elasticjob_api import exit_codes
from elasticjob_api.records import FailureRule, SpecRecord, TombstoneReason, WorkerFailure
from elasticjob_api.rendezvous_state import Cause, Member

PORT_RETRIES = 5
"""Rounds in a row that a taken MASTER_PORT may cost without being charged."""

_FAIL_JOB = "FailJob"
_IGNORE = "Ignore"
_ABORT = -6
_STDERR_MESSAGE = 500
_CRASHES = {-4, _ABORT, -7, -8, -11}
"""SIGILL, SIGABRT, SIGBUS, SIGFPE, SIGSEGV: never what we send to stop a worker."""
_STACK = "what():"


@dataclass(frozen=True, slots=True)
class Verdict:
    """The additions to the counters, their reason, and whether the job ends with it."""

    restarts: int = 0
    node_losses: int = 0
    root_cause: FailureEntry | None = None
    failed: Cause | None = None
    message: str = ""
    """The root cause in words, and what follows from it."""
    startup_failures: int = 0
    """Failures in a row before any progress, this one included."""
    port_retries: int = 0
    """Rounds in a row that a taken MASTER_PORT has ended, this one included."""
    charged_failures: str = ""
    """The failures that count within the restart window, as the world carries them."""


def decide_verdict(view: RendezvousView, spec: SpecRecord, counts: RestartCounts) -> Verdict:
    """The verdict on the members of the last active round; `counts` is what was counted before."""
    if view.membership is None:
        return Verdict(charged_failures=counts.charged_failures)
    lost = [m for m in view.membership.members if is_lost(view, m)]
    if lost or any(has_left(view, m) for m in view.membership.members):
        # Rounds are counted, as for restarts, not nodes.
        return Verdict(node_losses=1 if lost else 0, charged_failures=counts.charged_failures)
    failures = view.failures_of(view.membership.round)
    root = root_cause(failures)
    charged = [f for f in failures if not f.failure.late and not f.failure.stopped_by_agent]
    if not charged or root is None:
        # The round ended for another reason. A worker that lost its peers to that is the cause of nothing.
        shown = root if root and not _is_a_victim(root.failure) else None
        return Verdict(
            root_cause=shown, charged_failures=counts.charged_failures, message=describe(shown) if shown else ""
        )
    if root.failure.port_taken and counts.port_retries < PORT_RETRIES:
        detail = f"{describe(root)}; not charged: the next attempt takes another port"
        return Verdict(
            root_cause=root,
            charged_failures=counts.charged_failures,
            message=detail,
            port_retries=counts.port_retries + 1,
        )
    return _charge(spec, root, counts, startup_failures=_startup_failures(failures, counts))


def _startup_failures(failures: list[FailureEntry], counts: RestartCounts) -> int:
    """A node that had reported progress breaks the row, whichever of the failures is the root cause."""
    in_a_row = all(f.failure.startup for f in failures if not f.failure.stopped_by_agent)
    return counts.startup_failures + 1 if in_a_row else 0


def _charge(spec: SpecRecord, root: FailureEntry, counts: RestartCounts, *, startup_failures: int) -> Verdict:
    said = describe(root)
    action = _rule(spec.failure_rules, exit_codes.exit_code_of(root.failure.exit_code))
    if action == _FAIL_JOB:
        return Verdict(
            root_cause=root, failed=Cause.FAIL_JOB_RULE, message=f"{said}; a failurePolicy rule ends the job"
        )
    said_again = said + restart_backoff.describe_delay(spec, startup_failures)
    ports = counts.port_retries if root.failure.port_taken else 0
    if action == _IGNORE:
        return Verdict(
            root_cause=root,
            message=said_again,
            startup_failures=startup_failures,
            port_retries=ports,
            charged_failures=counts.charged_failures,
        )
    if restart_budget.used_restarts(spec, counts) + 1 > spec.max_restarts:
        return Verdict(
            root_cause=root,
            failed=Cause.MAX_RESTARTS,
            message=said + _is_exhausted(spec, startup_failures),
            startup_failures=startup_failures,
        )
    charges = restart_budget.is_charged(spec, counts)
    return Verdict(
        1,
        root_cause=root,
        message=said_again,
        startup_failures=startup_failures,
        port_retries=ports,
        charged_failures=charges,
    )


def _is_exhausted(spec: SpecRecord, startup_failures: int) -> str:
    window = f" within {spec.restart_window_s:g} s" if spec.restart_window_s else ""
    row = f": {startup_failures} failures in a row before any progress" if startup_failures > 1 else ""
    return f"; maxRestarts {spec.max_restarts} is used up{window}{row}"


def _rule(rules: tuple[FailureRule, ...], exit_code: int) -> str:
    for rule in rules:
        if not rule.values or (exit_code in rule.values) != rule.negate:
            return rule.action
    return ""


def root_cause(failures: list[FailureEntry]) -> FailureEntry | None:
    """The first failure of the lowest class in etcd's order; None if all that failed was stopped by us."""
    own = [f for f in failures if not f.failure.stopped_by_agent or reported_by_worker(f.failure)]
    return min(own, key=lambda f: (_class(f.failure), f.revision, f.local_rank), default=None)


def reported_by_worker(failure: WorkerFailure) -> bool:
    """We had signalled it, but that is not what it ended of: it had crashed, or its error file tells why."""
    return failure.exit_code in _CRASHES or bool(failure.message)


def _class(failure: WorkerFailure) -> int:
    if failure.oom or failure.port_taken:
        return 0
    if _is_a_victim(failure):
        return 3
    if failure.stopped_by_agent:
        return 2
    return 0 if failure.exit_code < 0 else 1


def _is_a_victim(failure: WorkerFailure) -> bool:
    """Whether it ended for want of its peers. A C++ library aborts over an exception that it does not catch."""
    if failure.exit_code in _CRASHES - {_ABORT}:
        return False
    said = _uncaught(failure.stderr) if failure.exit_code == _ABORT else ""
    return blames_peer(f"{failure.message}\n{said}")


def _uncaught(stderr: str) -> str:
    """What a C++ library says of the exception that nobody caught, before its stack; else the last words."""
    at = stderr.rfind(_STACK)
    return stderr[-_STDERR_MESSAGE:] if at < 0 else stderr[at : at + _STDERR_MESSAGE]


def describe(failure: FailureEntry) -> str:
    """The failure in words: who, where, how."""
    record = failure.failure
    where = f" on {record.pod}" if record.pod else ""
    how = f"was killed by {record.signal}" if record.signal else f"exited with code {record.exit_code}"
    oom = " (out of memory)" if record.oom else ""
    said = record.message.strip().splitlines()
    return f"rank {record.rank}{where} {how}{oom}" + (f": {said[-1][:200]}" if said else "")


def is_done(view: RendezvousView, member: Member) -> bool:
    """All its workers exited 0 in the last active round."""
    return view.membership is not None and (view.membership.round, member) in view.completions


def has_left(view: RendezvousView, member: Member) -> bool:
    """It said goodbye: by its `gone` record, or it is about to."""
    if is_done(view, member):
        return False
    gone, node = view.tombstones.get(member), view.nodes.get(member)
    return (gone is not None and gone.reason is TombstoneReason.LEFT) or (node is not None and node.record.leaving)


def is_lost(view: RendezvousView, member: Member) -> bool:
    """It is gone without goodbye; a finished member that is gone is not lost."""
    if is_done(view, member) or has_left(view, member):
        return False
    return member not in view.nodes or member in view.tombstones
