"""`status.keep` and the condition KeepDegraded: which step is safe in memory, and why copies are missing.

They are from the agents' samples, and from the spec where that cannot work as it is.
"""

from collections.abc import Iterator, Sequence

from elasticjob_api.keep_memory import memory_remark
from elasticjob_api.records import KeepReport, NodeSamples
from elasticjob_api.rendezvous_state import Member
from elasticjob_api.status import KeepStatus
from elasticjob_operator.model.snapshot import JobSnapshot
from elasticjob_operator.policy.status.keep_total import first_degradation, keep_total

ALL_KEPT, OFF, NOT_RUNNING = "AllKept", "Off", "NotRunning"
TOO_SMALL, NO_OTHER_NODE, NODES_DEGRADED = "KeepTooSmall", "NoOtherNode", "NodesDegraded"
"""Reasons of the condition KeepDegraded: these while it is True, those above while it is False."""


def keep_status(snapshot: JobSnapshot) -> KeepStatus | None:
    """Return the steps of the job that are kept; the last known ones if no agent reports any."""
    if snapshot.job.spec.keep is None or _is_suspended(snapshot):
        return None
    reports = [report for _, report in _reports(snapshot)]
    return keep_total(reports) if reports else snapshot.status.keep


def node_keep_status(samples: NodeSamples | None) -> KeepStatus | None:
    """Return what the keeper of one node holds and knows, if its agent reports it."""
    return None if samples is None or samples.keep is None else keep_total([samples.keep])


def degradation(snapshot: JobSnapshot) -> tuple[str, str]:
    """Return a reason and a message if steps are kept less safely than requested; the message is empty if not."""
    keep = snapshot.job.spec.keep
    if keep is None:
        return OFF, ""
    if snapshot.view.is_final or snapshot.job.spec.suspend:
        return NOT_RUNNING, ""
    if remark := memory_remark(snapshot.job.spec):
        return TOO_SMALL, remark
    if keep.copies and snapshot.job.spec.effective_max == 1:
        why = f"spec.keep.copies is {keep.copies}, and the job has one node: set it to 0, or raise spec.maxReplicas"
        return NO_OTHER_NODE, why
    name = snapshot.job.metadata.name
    why = first_degradation([(f"{name}-{slot}", report) for slot, report in _reports(snapshot)])
    return (NODES_DEGRADED, why) if why else (ALL_KEPT, "")


def _is_suspended(snapshot: JobSnapshot) -> bool:
    """Return whether the pods are gone, and with them what was in their memory."""
    return snapshot.job.spec.suspend and not snapshot.view.is_final and not snapshot.slot_agents


def _reports(snapshot: JobSnapshot) -> Iterator[tuple[int, KeepReport]]:
    """Yield slot and report of each node; of an ended job, of the members of its last round."""
    for member in _members(snapshot):
        samples = snapshot.samples.get(member)
        if samples is not None and samples.keep is not None:
            yield member.slot, samples.keep


def _members(snapshot: JobSnapshot) -> Sequence[Member]:
    membership = snapshot.view.membership
    # Agents remove their samples when the job ends. The last ones are remembered.
    if snapshot.view.is_final and membership is not None:
        return sorted(membership.members, key=lambda member: member.slot)
    return [member for _, member in sorted(snapshot.slot_agents.items())]
