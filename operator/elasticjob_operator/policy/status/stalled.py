"""Detection of hung training: for progressDeadlineSeconds no worker has made progress, and each is idle or spinning.

Each agent reports on its own workers only. One slow node is not a hang, because the others wait for it. So the job is
stalled if every unfinished node of the active round reports a hang. This sets a condition and restarts nothing.
"""

from elasticjob_operator.model.snapshot import JobSnapshot
from elasticjob_operator.model.timestamps import to_rfc3339

_NS = 1e9


def stalled_since(snapshot: JobSnapshot) -> str:
    """Return since when all nodes are suspected to hang; empty if any is not."""
    active = snapshot.view.active_state
    if active is None or not snapshot.job.spec.progress_deadline_s:
        return ""
    working = [member for member in active.members if not snapshot.view.has_completed(active.round, member)]
    reports = [snapshot.view.reports.get(member) for member in working]
    since_ns = [r.stalled_since_ns if r is not None and r.round == active.round else 0 for r in reports]
    return to_rfc3339(max(since_ns) / _NS) if since_ns and all(since_ns) else ""
