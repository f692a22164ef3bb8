"""PURE: a job of the board as JSON for the page: a row of the list, or all of it.

Every text here may come from the job, and is passed on as it is: the page shows text as text. It is bounded here, so
that no job can make the page slow for the others.
"""

import math
from collections.abc import Iterator
from typing import Any

from elasticjob_api import codec
from elasticjob_api.records import Failure, Progress, Report
from elasticjob_api.status import JobStatus, NodeStatus, ProgressStatus
from elasticjob_operator.model import objects
from elasticjob_operator.model.timestamps import from_rfc3339
from elasticjob_operator.policy.status.worker_states import letters
from elasticjob_operator.ui.round_history import Round
from elasticjob_operator.ui.state import Shown

TEXT_LIMIT = 1024
TAIL_LIMIT = 4096
METRICS_LIMIT = 20
RANKS_LIMIT = 20_000

Json = dict[str, Any]


def row(shown: Shown) -> Json:
    """What the list shows."""
    status, meta = shown.status, objects.metadata(shown.obj)
    return {
        "namespace": shown.key.namespace,
        "name": shown.key.name,
        "phase": str(status.phase),
        "reason": _cut(status.reason),
        "message": _cut(status.message),
        "nodes": [status.ready_replicas, status.desired_replicas],
        "workers": codec.write(status.worker_states, keep_defaults=True),
        "worldSize": status.world_size,
        "round": status.rendezvous_round,
        "restarts": status.restarts,
        "nodeLosses": status.node_losses,
        "progress": _progress(shown),
        "created": from_rfc3339(str(meta.get("creationTimestamp") or "")),
        "completed": from_rfc3339(status.completion_time),
    }


def whole(shown: Shown) -> Json:
    """What the page of one job shows."""
    causes = {each.round: each.message for each in shown.status.rounds}
    return {
        **row(shown),
        "uid": shown.key.uid,
        "ranks": list(_nodes(shown)),
        "truncated": shown.status.nodes_truncated,
        "rounds": [_round(each, causes.get(each.number, "")) for each in shown.history.rounds],
        "failure": _last_failure(shown.status),
        "failures": [_failure(name, failure) for name, failure in shown.failures.items()],
        "conditions": [
            {"type": c.type, "status": c.status, "reason": _cut(c.reason), "message": _cut(c.message)}
            for c in shown.status.conditions
        ],
    }


def _progress(shown: Shown) -> Json | None:
    """The farthest that an agent told; the status follows it slowly, and keeps it when the agents are gone."""
    told = [report.progress for report in shown.view.reports.values() if report.progress is not None]
    live = max((p for p in told if p.step is not None), key=lambda p: p.step or 0, default=None)
    kept = shown.status.progress
    if live is not None and (kept is None or (live.step or 0) >= (kept.step or 0)):
        return _shown_progress(live)
    return _shown_progress(kept) if kept is not None else None


def _shown_progress(told: Progress | ProgressStatus) -> Json:
    metrics = {_cut(name): _cut(value) for name, value in list(told.metrics.items())[:METRICS_LIMIT]}
    return {"step": told.step, "total": told.total, "metrics": metrics}


def _nodes(shown: Shown) -> Iterator[Json]:
    """Nodes with their workers, by rank; those without one last."""
    known = {node.pod_name: node for node in shown.status.nodes}
    reports = {report.pod: report for report in shown.view.reports.values()}
    ended = bool(shown.status.completion_time)
    found = [_node(known.get(pod), reports.get(pod), pod, ended=ended) for pod in dict.fromkeys([*known, *reports])]
    found.sort(key=lambda node: (node["rank"] is None, node["rank"] or 0, node["name"]))
    room = RANKS_LIMIT
    for node in found:
        room -= len(node["letters"])
        if room < 0:
            return
        yield node


def _node(status: NodeStatus | None, report: Report | None, pod: str, *, ended: bool) -> Json:
    told = letters(report) if report is not None else ""
    kept = status.ranks if status is not None else ""
    workers = report.workers if report is not None else ()
    return {
        "name": status.name if status is not None else pod,
        "pod": _cut(pod),
        "node": _cut(status.node_name) if status is not None else "",
        "state": status.state if status is not None else "",
        "reason": _cut(status.reason) if status is not None else "",
        "rank": status.rank if status is not None else (report.group_rank if report is not None else None),
        "letters": (kept if ended and kept else told or kept)[:RANKS_LIMIT],
        "first": workers[0].rank if workers else None,
        "pids": [worker.pid for worker in workers],
        "cpu": [_number(worker.cpu_percent) for worker in workers],
        "memory": [worker.memory_bytes for worker in workers],
    }


def _round(each: Round, message: str) -> Json:
    """`message` is the status's, which knows the failure that a round was opened for."""
    return {
        "round": each.number,
        "cause": each.cause,
        "detail": _cut(message or each.detail),
        "opened": each.opened_s,
        "active": each.active_s,
        "ended": each.ended_s,
        "end": each.end,
        "nodes": each.nodes,
        "workers": each.workers,
        "steps": dict(each.steps),
    }


def _last_failure(status: JobStatus) -> Json | None:
    failure = status.last_failure
    if failure is None:
        return None
    told: Json = codec.write(failure, keep_defaults=True)
    return {name: _cut(value) if isinstance(value, str) else value for name, value in told.items()}


def _failure(name: str, failure: Failure) -> Json:
    return {
        "name": name,
        "rank": failure.rank,
        "pod": _cut(failure.pod),
        "host": _cut(failure.host),
        "exitCode": failure.exit_code,
        "signal": _cut(failure.signal),
        "message": _cut(failure.message),
        "oom": failure.oom,
        "late": failure.late,
        "tail": failure.stderr[-TAIL_LIMIT:],
    }


def _number(value: float | None) -> float | None:
    """JSON has no word for what is no number."""
    return value if value is not None and math.isfinite(value) else None


def _cut(text: str) -> str:
    return text if len(text) <= TEXT_LIMIT else text[: TEXT_LIMIT - 1] + "…"
