"""PURE: the suspicion that training hangs: every worker has been silent and idle (or spinning) for progressDeadline.

Each agent suspects its own workers only. One slow node is no hang: the others wait for it. So the job is stalled when
every node of the active round that has not finished reports it. Nothing is restarted for it; it is a condition.
"""

from elasticjob_operator.model.snapshot import JobSnapshot
from elasticjob_operator.model.timestamps import to_rfc3339

_NS = 1e9


def stalled_since(snapshot: JobSnapshot) -> str:
    """Since when all nodes are suspected to hang; empty while any is not."""
    active = snapshot.view.is_active
    if active is None or not snapshot.job.spec.progress_deadline_s:
        return ""
    working = [member for member in active.members if not snapshot.view.has_completed(active.round, member)]
    reports = [snapshot.view.reports.get(member) for member in working]
    since_ns = [r.stalled_since_ns if r is not None and r.round == active.round else 0 for r in reports]
    return to_rfc3339(max(since_ns) / _NS) if since_ns and all(since_ns) else ""
