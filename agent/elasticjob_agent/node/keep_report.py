"""The report of one node about its kept steps, and the reason why a step is late. No I/O."""

from elasticjob_agent.keep.client import KeeperClient
from elasticjob_agent.node.commit_meter import CommitMeter
from elasticjob_api.kept_steps import PersistedStep
from elasticjob_api.records import KeepReport
from elasticjob_api.rendezvous_state import RendezvousState


def keep_report(
    keeper: KeeperClient, commits: CommitMeter, persisted: PersistedStep | None, not_kept: str = ""
) -> KeepReport:
    """Return what a keeper knows and holds.

    `persisted` is the newest step that the training may restore from disk. `not_kept` is why the workers of the round
    have no directory for their steps; empty if they have one.
    """
    progress = keeper.progress
    committed = progress.committed
    return KeepReport(
        round=0 if committed is None else committed.lineage.round,
        step=None if committed is None else committed.number,
        copies=progress.copies,
        committed_ns=commits.committed_ns,
        copy_s=commits.copy_s,
        held_bytes=progress.held_bytes,
        skipped=progress.skipped,
        degraded=f"steps are not kept at present: {keeper.refused}"
        if keeper.refused
        else not_kept or progress.degraded,
        persisted_step=None if persisted is None else persisted.step.number,
        persisted_ns=0 if persisted is None else keeper.persisted_steps().get(persisted, 0),
    )


def late_reason(state: RendezvousState, restore_timeout_s: float) -> str:
    """Return why a round could not be prepared in its time."""
    if not state.restore:
        return "the keeper did not answer in time"
    return (
        f"it was not here within {restore_timeout_s:g} s; raise keep.restoreTimeoutSeconds "
        "(--keep-restore-timeout): without that, older steps may be given up for the same reason"
    )


def waiting_for_keeper(why: str) -> str:
    """Return that a node waits for its keeper, without a full stop; `why` is what is in the keeper's way."""
    return f"this node waits for its keeper: {why}; repair its directory in memory (--keep-dir), or delete the pod"
