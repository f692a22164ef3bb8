"""`status.keep` and the condition KeepDegraded: which step is safe in memory, and why copies are missing.

They are from the agents' samples, and from the spec where that cannot work as it is.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from elasticjob_api.keep_memory import copies_remark, memory_remark, volume_remark
from elasticjob_api.records import KeepReport, NodeSamples
from elasticjob_api.rendezvous_state import Member
from elasticjob_api.spec import Keep
from elasticjob_api.status import KeepStatus, NodeKeepStatus
from elasticjob_operator.model.snapshot import JobSnapshot
from elasticjob_operator.model.timestamps import from_rfc3339
from elasticjob_operator.policy.status.keep_total import first_reason, keep_total, node_total

ALL_KEPT, NOT_REPORTED, OFF, NOT_RUNNING = "AllKept", "NotReported", "Off", "NotRunning"
NO_STEP = "NoStepCommitted"
TOO_SMALL, TOO_FEW_NODES = "KeepTooSmall", "TooFewNodes"
NODES_DEGRADED, PERSIST_FAILED, PERSIST_UNREADABLE = "NodesDegraded", "PersistFailed", "PersistUnreadable"
"""Reasons of the condition KeepDegraded: the last five while it is True, the others while it is False."""
OF_PERSISTING = frozenset({PERSIST_FAILED, PERSIST_UNREADABLE})


def keep_status(snapshot: JobSnapshot) -> KeepStatus | None:
    """Return the steps of the job that are kept; the last known ones if no agent reports any."""
    keep = snapshot.job.spec.keep
    if keep is None:
        return None
    known = snapshot.status.keep
    if _is_suspended(snapshot):
        return None if keep.persist_to is None else _on_disk(keep_status_at_end(snapshot) or KeepStatus())
    reports = [report for _, report in _reports(snapshot)]
    return _with_known(keep_total(reports), keep, known) if reports else known


def keep_status_at_end(snapshot: JobSnapshot) -> KeepStatus | None:
    """Return the steps of a job whose pods end: those of its status, and what agents have written to disk since.

    Agents write the last steps after the end, and report them. The other fields stay as they were at the end.
    """
    known = snapshot.status.keep
    reports = [report for _, report in _reports(snapshot)]
    if not reports:
        return known
    shown, found = known or KeepStatus(), keep_total(reports)
    if found.persisted_step is not None and _persisted_s(found) >= _persisted_s(shown):
        return replace(
            shown,
            persisted_step=found.persisted_step,
            persisted_time=found.persisted_time,
            persist_error=found.persist_error,
        )
    return replace(shown, persist_error=found.persist_error) if found.persist_error else known


def _persisted_s(kept: KeepStatus) -> float:
    """Return when the persisted step became whole, in seconds since 1970; 0 if that is not known."""
    return from_rfc3339(kept.persisted_time) or 0.0


def _on_disk(known: KeepStatus) -> KeepStatus | None:
    """Return what remains without the memory of the pods; None if nothing does."""
    left = KeepStatus(
        persisted_step=known.persisted_step, persisted_time=known.persisted_time, persist_error=known.persist_error
    )
    return None if left == KeepStatus() else left


def _with_known(total: KeepStatus, keep: Keep, known: KeepStatus | None) -> KeepStatus:
    """Return a total with the persisted step of the status, until an agent has found one."""
    if known is None or keep.persist_to is None or total.persisted_step is not None:
        return total
    return replace(total, persisted_step=known.persisted_step, persisted_time=known.persisted_time)


def node_keep_status(samples: NodeSamples | None) -> NodeKeepStatus | None:
    """Return what the keeper of one node holds and knows, if its agent reports it."""
    return None if samples is None or samples.keep is None else node_total(samples.keep)


def degradation(snapshot: JobSnapshot) -> tuple[str, str]:
    """Return a reason and a message if steps are kept less safely than requested; the message is empty if not.

    With several reasons the message has all of them.
    """
    keep = snapshot.job.spec.keep
    if keep is None:
        return OFF, ""
    if snapshot.view.is_final or snapshot.job.spec.suspend:
        return NOT_RUNNING, ""
    found = [(reason, why) for reason, why in _degradations(snapshot, keep) if why]
    if not found:
        return _undegraded([report for _, report in _reports(snapshot)]), ""
    return found[0][0], "; ".join(why for _, why in found)


def has_memory_trouble(snapshot: JobSnapshot) -> bool:
    """Whether the job runs, and the steps in memory are kept less safely than requested."""
    keep = snapshot.job.spec.keep
    if keep is None or snapshot.view.is_final or snapshot.job.spec.suspend:
        return False
    return any(why for reason, why in _degradations(snapshot, keep) if reason not in OF_PERSISTING)


def _undegraded(reports: Sequence[KeepReport]) -> str:
    """Return the reason of a job that is not degraded; without a committed step nothing is kept yet."""
    if not reports:
        return NOT_REPORTED
    return NO_STEP if keep_total(reports).step is None else ALL_KEPT


def _degradations(snapshot: JobSnapshot, keep: Keep) -> Iterator[tuple[str, str]]:
    spec = snapshot.job.spec
    # No worker runs on a node that waits, so this one is first.
    yield PERSIST_UNREADABLE, _first(snapshot, lambda report: report.persist_error if report.is_waiting else "")
    yield TOO_SMALL, memory_remark(spec) or _first(snapshot, lambda report: volume_remark(keep, report))
    yield TOO_FEW_NODES, copies_remark(spec)
    yield NODES_DEGRADED, _first(snapshot, lambda report: report.degraded)
    yield PERSIST_FAILED, _first(snapshot, lambda report: "" if report.is_waiting else report.persist_error)


def restoring(snapshot: JobSnapshot) -> str:
    """Return which step a node must have before training goes on; empty if the workers wait for none."""
    waits = "its workers wait for step {}, which it restores"
    return _first(snapshot, lambda report: "" if report.restoring is None else waits.format(report.restoring))


def _first(snapshot: JobSnapshot, why: Callable[[KeepReport], str]) -> str:
    name = snapshot.job.metadata.name
    return first_reason([(f"{name}-{slot}", why(report)) for slot, report in _reports(snapshot)])


def members_without_directory(snapshot: JobSnapshot) -> frozenset[Member] | None:
    """Return the ended members of a suspended job that has no persistTo now; None for any other job.

    The next persistTo may be another directory, which does not have the steps that they have reported.
    """
    keep = snapshot.job.spec.keep
    is_without = keep is None or keep.persist_to is None
    return frozenset(_members(snapshot)) if is_without and _is_suspended(snapshot) else None


def _is_suspended(snapshot: JobSnapshot) -> bool:
    """Return whether the pods are gone, and with them what was in their memory."""
    return snapshot.job.spec.suspend and not snapshot.view.is_final and not snapshot.slot_agents


def _reports(snapshot: JobSnapshot) -> Iterator[tuple[int, KeepReport]]:
    """Yield slot and report of each node; of an ended or suspended job, of the members of its last round."""
    for member in _members(snapshot):
        samples = snapshot.samples.get(member)
        is_left_out = member in snapshot.job_state.last_seen.without_directory
        if samples is not None and samples.keep is not None and not is_left_out:
            yield member.slot, samples.keep


def _members(snapshot: JobSnapshot) -> Sequence[Member]:
    membership = snapshot.view.membership
    # Agents remove their samples when they end. The last ones are remembered.
    if (snapshot.view.is_final or _is_suspended(snapshot)) and membership is not None:
        return sorted(membership.members, key=lambda member: member.slot)
    return [member for _, member in sorted(snapshot.slot_agents.items())]
