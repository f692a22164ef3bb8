"""`status.lastFailure`: the root cause that the leader determined, with the message from the worker's own record.

If a round ended by a loss, it is the lost node and never a collateral failure. The leader then names no root cause and
counts a loss. Records of old rounds are deleted, so a failure that was observed once is kept.
"""

from elasticjob_api.exit_codes import exit_code_of
from elasticjob_api.failure_text import OOM_KILLED
from elasticjob_api.records import WorkerFailure
from elasticjob_api.status import LastFailure
from elasticjob_operator.model.snapshot import JobSnapshot
from elasticjob_operator.model.timestamps import to_rfc3339
from elasticjob_operator.policy.status.node_loss import from_node_loss, with_pod_exit

MESSAGE_LIMIT = 1024
_NS = 1e9


def last_failure(snapshot: JobSnapshot) -> LastFailure | None:
    """Return the root cause of the last round with a verdict, or the one known before."""
    state, before = snapshot.view.state, snapshot.status.last_failure
    if state is not None and state.node_losses > snapshot.status.node_losses:
        return from_node_loss(snapshot) or before
    root = state.root_failure if state else None
    entry = snapshot.view.failures.get(root) if root else None
    if state is None or root is None or entry is None:
        return with_pod_exit(before, snapshot.pods)
    # The round after it ended by a loss, and the record is not deleted yet.
    if before is not None and root.round < before.round < state.round:
        return with_pod_exit(before, snapshot.pods)
    failure = entry.failure
    pod = snapshot.pods.get(failure.pod)
    known_node = before.node_name if before and before.pod_name == failure.pod else ""
    return LastFailure(
        time=to_rfc3339(failure.time_ns / _NS),
        round=root.round,
        pod_name=failure.pod,
        node_name=pod.node_name if pod else known_node,
        rank=failure.rank,
        local_rank=root.local_rank,
        exit_code=exit_code_of(failure.exit_code),
        signal=failure.signal,
        reason=_reason(failure),
        message=failure.message[:MESSAGE_LIMIT],
        stderr_tail=_tail(failure.stderr),
    )


def _tail(text: str) -> str:
    """Return the last lines within the limit; the end of the last line if that alone is longer."""
    end = text[-MESSAGE_LIMIT:]
    return end.partition("\n")[2] or end if len(text) > len(end) else end


def _reason(failure: WorkerFailure) -> str:
    if failure.oom:
        return OOM_KILLED
    return "Signaled" if failure.signal else "Error"
